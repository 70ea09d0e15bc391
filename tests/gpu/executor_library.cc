// In place of libtrireme_cuda.so: the kernels of src/cuda on the executor, with memory that the program does not reach
// and streams that run later.

#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <utility>

#include "cuda/cuda_ops.h"
#include "cuda/kernel.h"
#include "cuda/place.h"
#include "gpu_interface.h"
#include "ops/gpu_library.h"
#include "tests/gpu/plain_attention.h"
#include "tests/gpu/plain_products.h"
#include "tests/support/apart_device.h"
#include "tests/support/socket_network.h"

// Of the environment: TRIREME_EXECUTOR_GPUS: how many GPUs a process sees, default one; TRIREME_EXECUTOR_HIDES: each
// process sees another one; TRIREME_EXECUTOR_FAULT: "fails RANK CALL": what happens to that rank's call for messages,
// or hangs or dies.
namespace {

int number_of(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

trireme::NetworkFaults faults_of(int rank) {
  const char* text = std::getenv("TRIREME_EXECUTOR_FAULT");
  if (text == nullptr) return {};
  std::istringstream words(text);
  std::string what;
  int of = -1, call = -1;
  words >> what >> of >> call;
  if (of != rank) return {};
  return {.hangs_at = what == "hangs" ? call : -1,
          .fails_at = what == "fails" ? call : -1,
          .dies_at = what == "dies" ? call : -1};
}

}  // namespace

extern "C" {

extern const char trireme_gpu_interface[];
const char trireme_gpu_interface[] = TRIREME_GPU_INTERFACE;

void trireme_make_gpu_backend(trireme::Backend& backend, const trireme::GpuOptions& options) {
  using namespace trireme;
  gpu::host::set_seed(5);
  const int index = gpu_of_rank(options.local_rank, number_of("TRIREME_EXECUTOR_GPUS", 1));
  auto device = std::make_unique<ApartDevice>();
  std::string hardware = "the executor";
  if (options.ranks > 1) {
    device->set_network(std::make_unique<SocketNetwork>(*device, faults_of(options.local_rank)));
    hardware += ", connected by sockets";
  }
  auto kernels = std::make_unique<CudaOps>(host_device(), make_plain_products(options.products, options.tune),
                                           options.cudnn ? make_plain_attention() : nullptr);
  backend = {.device = nullptr,
             .ops = std::make_unique<ApartOps>(*device, std::move(kernels), true),
             .hardware = std::move(hardware),
             .gpu = std::to_string(std::getenv("TRIREME_EXECUTOR_HIDES") != nullptr ? getpid() : index),
             .kernels = "cuda",
             .has_bf16 = true,
             .multiplies_bf16 = true};
  backend.device = std::move(device);
}

}  // extern "C"
