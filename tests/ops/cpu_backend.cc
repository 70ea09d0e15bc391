#include "tests/ops/op_test.h"

namespace trireme::test {

std::unique_ptr<Ops> make_tested_ops(int) { return make_cpu_ops(); }

std::vector<Case> tested_cases() {
  return {{DType::f32, 1}, {DType::f32, 2}, {DType::f32, 3}, {DType::bf16, 1}, {DType::bf16, 2}, {DType::bf16, 3}};
}

}  // namespace trireme::test
