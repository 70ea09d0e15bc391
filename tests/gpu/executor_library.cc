// In place of libtrireme_cuda.so: the kernels of src/cuda on the executor, with memory that the program does not reach
// and streams that run later.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "cuda/cuda_ops.h"
#include "cuda/kernel.h"
#include "cuda/limits.h"
#include "gpu_interface.h"
#include "ops/gpu_library.h"
#include "tests/gpu/plain_attention.h"
#include "tests/gpu/plain_products.h"
#include "tests/support/apart_device.h"
#include "tests/support/apart_ops.h"
#include "tests/support/socket_network.h"

// Of the environment: TRIREME_EXECUTOR_GPUS: how many GPUs a process sees, default one; TRIREME_EXECUTOR_HIDES: each
// process sees another one; TRIREME_EXECUTOR_FAULT: "fails RANK CALL": what happens to that rank's call for messages,
// or hangs or dies, or `abort-hangs`: the abort of what hangs is never done; TRIREME_EXECUTOR_ABORTS: a file that gets
// a line for each abort of a rank's connections, with its number and theirs; TRIREME_EXECUTOR_NETWORK: what connects
// GPUs, default sockets; TRIREME_EXECUTOR_SOCKETS: a folder for these, if ranks are on several hosts;
// TRIREME_EXECUTOR_BUSES: places of the GPUs in the host, separated by commas, default their numbers;
// TRIREME_EXECUTOR_CARD: what the driver calls them; TRIREME_EXECUTOR_SPOILS: "WORK [HOW]": what is wrong in every
// result of that work (apart_device.h): a large value; `bit`: the lowest bit; `zeros`. Words of their own:
// `first-wait`: the first wait for an event does not happen; `no-cudnn` and `no-network`: that library is missing.
namespace {

int number_of(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

std::string bus_of(int index) {
  const char* text = std::getenv("TRIREME_EXECUTOR_BUSES");
  std::istringstream buses(text != nullptr ? text : "");
  std::string bus;
  for (int i = 0; i <= index; ++i)
    if (!std::getline(buses, bus, ',')) return std::to_string(index);
  return bus;
}

void note_abort(int rank, size_t connections) {
  const char* file = std::getenv("TRIREME_EXECUTOR_ABORTS");
  if (file == nullptr) return;
  const std::string line = std::to_string(rank) + " " + std::to_string(connections) + "\n";
  const int to = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  static_cast<void>(!write(to, line.data(), line.size()));
  close(to);
}

trireme::NetworkFaults faults_of(int rank) {
  const char* text = std::getenv("TRIREME_EXECUTOR_FAULT");
  std::istringstream words(text != nullptr ? text : "");
  std::string what;
  int of = -1, call = -1;
  words >> what >> of >> call;
  if (of != rank) what.clear();
  const bool abort_hangs = what == "abort-hangs";
  return {.hangs_at = what == "hangs" || abort_hangs ? call : -1,
          .fails_at = what == "fails" ? call : -1,
          .dies_at = what == "dies" ? call : -1,
          .aborted = [rank, abort_hangs](size_t connections) {
            note_abort(rank, connections);
            while (abort_hangs) pause();
          }};
}

std::string_view spoiled() {
  const char* text = std::getenv("TRIREME_EXECUTOR_SPOILS");
  return text != nullptr ? text : "";
}

void spoil(std::string_view work, trireme::View result) {
  const std::string_view all = spoiled();
  if (all.substr(0, all.find(' ')) != work || result.count() == 0) return;
  auto* const bytes = static_cast<unsigned char*>(result.data());
  const size_t width = size_of(result.dtype());
  if (all.ends_with(" bit"))
    bytes[0] ^= 1;
  else if (all.ends_with(" zeros"))
    std::memset(bytes, 0, std::min<size_t>(64, result.bytes()));
  else
    bytes[width - 1] ^= 0x40;  // the exponent
}

bool drops_first(bool asks) {
  static std::atomic<int> waits = 0;
  return !asks && waits++ == 0;
}

/// In the place of cuDNN.
class SpoiledAttention final : public trireme::AttentionLibrary {
 public:
  std::string name() const override { return plain_->name(); }
  int capability() const override { return plain_->capability(); }
  std::optional<size_t> workspace_bytes(const trireme::AttentionCall& call) override {
    return plain_->workspace_bytes(call);
  }
  void forward(trireme::gpu::Stream stream, const trireme::AttentionCall& call, trireme::ConstView qkv,
               trireme::View out, trireme::View lse, trireme::View workspace) override {
    plain_->forward(stream, call, qkv, out, lse, workspace);
    spoil("cudnn", out);
  }
  void backward(trireme::gpu::Stream stream, const trireme::AttentionCall& call, trireme::ConstView dout,
                trireme::ConstView qkv, trireme::ConstView out, trireme::ConstView lse, trireme::View dqkv,
                trireme::View workspace) override {
    plain_->backward(stream, call, dout, qkv, out, lse, dqkv, workspace);
  }

 private:
  std::unique_ptr<trireme::AttentionLibrary> plain_ = trireme::make_plain_attention();
};

std::unique_ptr<trireme::AttentionLibrary> attention() {
  if (spoiled() == "no-cudnn") return nullptr;
  if (spoiled().empty()) return trireme::make_plain_attention();
  return std::make_unique<SpoiledAttention>();
}

}  // namespace

extern "C" {

extern const char trireme_gpu_interface[];
const char trireme_gpu_interface[] = TRIREME_GPU_INTERFACE;

void trireme_make_gpu_backend(trireme::Backend& backend, const trireme::GpuOptions& options) {
  using namespace trireme;
  gpu::host::set_seed(5);
  if (spoiled() == "first-wait") {
    apart_faults.drops = drops_first;
    // So that a stream that does not wait is ahead, also on a loaded host.
    apart_faults.late_default = std::chrono::milliseconds(20);
  }
  if (!spoiled().empty()) apart_faults.spoils = spoil;
  const int index = gpu_of_rank(options.local_rank, number_of("TRIREME_EXECUTOR_GPUS", 1));
  auto device = std::make_unique<ApartDevice>();
  const char* const card = std::getenv("TRIREME_EXECUTOR_CARD");
  std::string hardware = card != nullptr ? card : "the executor";
  if (options.ranks > 1 || options.network) {
    if (spoiled() == "no-network") fail(ErrorKind::usage, "NCCL was not found");
    device->set_network(std::make_unique<SocketNetwork>(*device, faults_of(options.local_rank)));
    if (options.ranks > 1) hardware += ", connected by sockets";
  }
  auto kernels = std::make_unique<CudaOps>(host_device(), make_plain_products(options.products, options.tune),
                                           options.cudnn ? attention() : nullptr);
  backend = {.device = nullptr,
             .ops = std::make_unique<ApartOps>(*device, std::move(kernels), true),
             .hardware = std::move(hardware),
             .gpu = std::getenv("TRIREME_EXECUTOR_HIDES") != nullptr ? std::to_string(getpid()) : bus_of(index),
             .kernels = "cuda",
             .libraries = {"plain loops"},
             .has_bf16 = true,
             .multiplies_bf16 = true};
  backend.device = std::move(device);
}

void trireme_describe_gpu_network(std::string& text) {
  const char* version = std::getenv("TRIREME_EXECUTOR_NETWORK");
  text = version != nullptr ? version : "sockets";
}

}  // extern "C"
