// What the program finds in libtrireme_cuda.so by name.

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "cuda/attention_cudnn.h"
#include "cuda/cublaslt.h"
#include "cuda/cuda_ops.h"
#include "cuda/device.h"
#include "cuda/find_library.h"
#include "cuda/limits.h"
#include "cuda/nccl.h"
#include "cuda/nccl_library.h"
#include "gpu_interface.h"
#include "ops/gpu_library.h"

extern "C" {

extern const char trireme_gpu_interface[];
const char trireme_gpu_interface[] = TRIREME_GPU_INTERFACE;

/// kMakeGpuBackend
void trireme_make_gpu_backend(trireme::Backend& backend, const trireme::GpuOptions& options) {
  // Streams of groups wait for other ranks: with the usual eight queues they would delay each other. Before CUDA
  // starts.
  if (options.ranks > 1) setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  auto device = trireme::make_cuda_device(trireme::gpu_of_rank(options.local_rank, trireme::visible_gpus()));
  std::string hardware = device->description();
  auto products = trireme::make_cublaslt_products(options.products, options.tune);
  auto attention = options.cudnn ? trireme::make_cudnn_attention() : nullptr;
  std::vector<std::string> libraries{products->name()};
  if (attention) libraries.push_back(attention->name());
  if (options.ranks > 1 || options.network) {
    device->set_network(trireme::make_nccl_network(
        *device, trireme::nccl::load(trireme::open_library(trireme::nccl_for(CUDART_VERSION)))));
    libraries.push_back(device->network()->name());
    if (options.ranks > 1) hardware += ", connected by " + libraries.back();
  }
  auto ops = std::make_unique<trireme::CudaOps>(*device, std::move(products), std::move(attention));
  backend = {.device = nullptr,
             .ops = std::move(ops),
             .hardware = std::move(hardware),
             .gpu = device->bus_id(),
             .kernels = "cuda",
             .libraries = std::move(libraries),
             .has_bf16 = true,
             .multiplies_bf16 = true};
  backend.device = std::move(device);
}

/// kDescribeGpuNetwork
void trireme_describe_gpu_network(std::string& text) {
  const trireme::nccl::Library nccl = trireme::nccl::load(trireme::open_library(trireme::nccl_for(CUDART_VERSION)));
  text = "NCCL " + trireme::nccl::version_text(nccl.number);
}

}  // extern "C"
