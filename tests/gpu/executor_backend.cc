// The operator suites of tests/ops on the kernels of src/cuda, run by the executor. A case's thread count is the seed
// of the order of warps; with the second, plain loops stand in the place of cuDNN.

#include "cuda/cuda_ops.h"
#include "cuda/kernel.h"
#include "tests/gpu/plain_attention.h"
#include "tests/gpu/plain_products.h"
#include "tests/ops/op_test.h"

namespace trireme::test {

std::unique_ptr<Ops> make_tested_ops(int variant) {
  gpu::host::set_seed(static_cast<uint64_t>(variant));
  return std::make_unique<CudaOps>(host_device(), make_plain_products(),
                                   variant == 2 ? make_plain_attention() : nullptr);
}

std::vector<Case> tested_cases() {
  return {{DType::f32, 1}, {DType::f32, 2}, {DType::bf16, 1}, {DType::bf16, 2}, {DType::f16, 3}};
}

}  // namespace trireme::test
