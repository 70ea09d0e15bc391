// In place of libtrireme_cuda.so: the kernels of src/cuda on the executor, with memory that the program does not reach
// and streams that run later.

#include "cuda/cuda_ops.h"
#include "cuda/kernel.h"
#include "gpu_interface.h"
#include "ops/gpu_library.h"
#include "tests/gpu/plain_attention.h"
#include "tests/gpu/plain_products.h"
#include "tests/support/apart_device.h"

extern "C" {

extern const char trireme_gpu_interface[];
const char trireme_gpu_interface[] = TRIREME_GPU_INTERFACE;

void trireme_make_gpu_backend(trireme::Backend& backend, const trireme::GpuOptions& options) {
  using namespace trireme;
  gpu::host::set_seed(5);
  auto device = std::make_unique<ApartDevice>();
  auto kernels = std::make_unique<CudaOps>(host_device(), make_plain_products(options.products, options.tune),
                                           options.cudnn ? make_plain_attention() : nullptr);
  backend = {.device = nullptr,
             .ops = std::make_unique<ApartOps>(*device, std::move(kernels), true),
             .hardware = "the executor",
             .kernels = "cuda",
             .has_bf16 = true,
             .multiplies_bf16 = true};
  backend.device = std::move(device);
}

}  // extern "C"
