#include "ops/cpu/cpu_ops.h"
#include "tests/ops/op_test.h"

namespace trireme::test {
namespace {

class Scratch : public CpuOp {};
INSTANTIATE_TEST_SUITE_P(Cpu, Scratch, every_case(), case_name);

TEST_P(Scratch, OperatorsBetweenTheGemmsKeepToTheirPlanAndGiveItBack) {
  for (int64_t rows : {1, 70})
    for (int64_t width : kWidths) {
      const size_t planned = small_ops_scratch_bytes(rows, width, GetParam().threads);
      cpu->scratch = Arena(planned);
      const Tensor x = Tensor::random(dtype(), {rows, width}, 1), w = Tensor::random(dtype(), {width}, 2);
      const Tensor mean = Tensor::random(DType::f32, {rows}, 3), ids(DType::i32, {rows});
      Tensor y = x, some_mean = mean, rstd = mean;
      cpu->ops->layer_norm(cpu->context, x.view(), w.view(), w.view(), 1e-5f, y.view(), some_mean.view(), rstd.view());
      Tensor dx = x, dw(DType::f32, {width}), db(DType::f32, {width}), dtable(DType::f32, {3, width});
      cpu->ops->layer_norm_backward(cpu->context, x.view(), x.view(), w.view(), mean.view(), mean.view(), dx.view(),
                                    dw.view(), db.view(), Write::add);
      cpu->ops->embedding_backward(cpu->context, ids.view(), x.view(), dtable.view(), Write::add);
      EXPECT_GT(cpu->scratch.peak(), 0);
      EXPECT_LE(cpu->scratch.peak(), planned) << rows << " x " << width;
      EXPECT_EQ(cpu->scratch.used(), 0);
    }
}

}  // namespace
}  // namespace trireme::test
