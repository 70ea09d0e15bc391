// The operator suites of tests/ops on a GPU.

#include "cuda/attention_cudnn.h"
#include "cuda/cublaslt.h"
#include "cuda/cuda_ops.h"
#include "cuda/device.h"
#include "tests/gpu/staged_ops.h"
#include "tests/ops/op_test.h"

namespace trireme::test {
namespace {

struct Gpu {
  std::unique_ptr<CudaDevice> device = make_cuda_device();
  CudaOps ops{*device, make_cublaslt_products()};
  CudaOps with_cudnn{*device, make_cublaslt_products(), make_cudnn_attention()};
  std::byte* memory = device->allocate(StagedOps::kBytes);
  Arena scratch{size_t{256} << 20, *device};
};

/// Kept until the process ends, as the library's handles are.
Gpu& gpu() {
  static Gpu* made = new Gpu;
  return *made;
}

}  // namespace

/// Variant 2: with attention by cuDNN.
std::unique_ptr<Ops> make_tested_ops(int variant) {
  Gpu& g = gpu();
  return std::make_unique<StagedOps>(*g.device, variant == 2 ? g.with_cudnn : g.ops, g.memory, g.scratch);
}

// Tensor cores cut the bits of sums off rather than rounding them.
std::vector<Case> tested_cases() {
  return {{DType::f32, 1},
          {.dtype = DType::bf16, .threads = 1, .sums = 2},
          {.dtype = DType::bf16, .threads = 2, .sums = 2},
          {.dtype = DType::f16, .threads = 1, .sums = 2},
          {.dtype = DType::f16, .threads = 2, .sums = 2}};
}

}  // namespace trireme::test
