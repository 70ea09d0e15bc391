// What the program finds in libtrireme_cuda.so by name.

#include "cuda/attention_cudnn.h"
#include "cuda/cublaslt.h"
#include "cuda/cuda_ops.h"
#include "cuda/device.h"
#include "gpu_interface.h"
#include "ops/gpu_library.h"

extern "C" {

extern const char trireme_gpu_interface[];
const char trireme_gpu_interface[] = TRIREME_GPU_INTERFACE;

/// kMakeGpuBackend
void trireme_make_gpu_backend(trireme::Backend& backend, const trireme::GpuOptions& options) {
  auto device = trireme::make_cuda_device();
  auto ops =
      std::make_unique<trireme::CudaOps>(*device, trireme::make_cublaslt_products(options.products, options.tune),
                                         options.cudnn ? trireme::make_cudnn_attention() : nullptr);
  backend = {.device = nullptr,
             .ops = std::move(ops),
             .hardware = device->description(),
             .kernels = "cuda",
             .has_bf16 = true,
             .multiplies_bf16 = true};
  backend.device = std::move(device);
}

}  // extern "C"
