#include "tests/ops/op_test.h"

namespace trireme::test {
namespace {

/// Rows of two long samples whose indices use both words of the counter.
struct Rows {
  Tensor sample, position;
  Dropout dropout;

  Rows(int64_t rows, float rate, uint64_t key = dropout_key(1, 2, 3, 4))
      : sample(DType::i64, {rows}), position(DType::i32, {rows}) {
    for (int64_t row = 0; row < rows; ++row) {
      sample.set(static_cast<size_t>(row), row < 20 ? 5 : 0x1'2345'6789);
      position.set(static_cast<size_t>(row), static_cast<double>(row % 20));
    }
    dropout = {rate, key, std::as_const(sample).view(), std::as_const(position).view()};
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  /// The definition in ops.h, written out.
  bool keeps(int64_t row, int64_t channel) const {
    const auto s = static_cast<uint64_t>(sample.at(static_cast<size_t>(row)));
    const auto words = philox(
        dropout.key, {static_cast<uint32_t>(channel / 4), static_cast<uint32_t>(position.at(static_cast<size_t>(row))),
                      static_cast<uint32_t>(s), static_cast<uint32_t>(s >> 32)});
    return words[static_cast<size_t>(channel % 4)] >= std::llround(static_cast<double>(dropout.rate) * 0x1p32);
  }
};

class DropoutOp : public CpuOp {};
INSTANTIATE_TEST_SUITE_P(Cpu, DropoutOp, every_case(), case_name);

TEST_P(DropoutOp, MasksAreTheScalarPhiloxWords) {
  for (int64_t rows : kRows)
    for (int64_t width : {1, 3, 7, 48, 511, 513, 768, 1600}) {
      const Rows r(rows, 0.3f);
      const Tensor x(dtype(), {rows, width}, std::vector<double>(static_cast<size_t>(rows * width), 1));
      Tensor y(dtype(), {rows, width});
      cpu->ops->dropout_add(cpu->context, x.view(), {}, r.dropout, y.view());
      size_t wrong = 0;
      for (int64_t i = 0; i < rows * width; ++i)
        wrong += (y.at(static_cast<size_t>(i)) != 0) != r.keeps(i / width, i % width);
      EXPECT_EQ(wrong, 0) << rows << " x " << width;
    }
}

TEST_P(DropoutOp, ForwardEqualsTheReference) {
  for (int64_t rows : kRows)
    for (int64_t width : kWidths)
      for (float rate : {0.0f, 0.1f, 0.9f})
        for (bool residual : {true, false}) {
          const Rows r(rows, rate);
          const Tensor x = Tensor::random(dtype(), {rows, width}, 1), base = Tensor::random(dtype(), {rows, width}, 2);
          Tensor y(dtype(), {rows, width}), want(DType::f64, {rows, width});
          const Tensor wide_base = base.wide();
          cpu->ops->dropout_add(cpu->context, x.view(), residual ? base.view() : ConstView(), r.dropout, y.view());
          reference->ops->dropout_add(reference->context, x.wide().view(), residual ? wide_base.view() : ConstView(),
                                      r.dropout, want.view());
          expect_close(y, want, GetParam().activation(4), fmt::format("{} x {} rate {}", rows, width, rate));
        }
}

TEST_P(DropoutOp, BackwardEqualsTheReferenceAndReplaysTheMask) {
  for (int64_t width : kWidths)
    for (float rate : {0.0f, 0.5f}) {
      const Rows r(37, rate);
      const Tensor dy = Tensor::random(dtype(), {37, width}, 1);
      Tensor dx(dtype(), {37, width}), want(DType::f64, {37, width}), in_place = dy;
      cpu->ops->dropout_backward(cpu->context, dy.view(), r.dropout, dx.view());
      cpu->ops->dropout_backward(cpu->context, in_place.view(), r.dropout, in_place.view());
      reference->ops->dropout_backward(reference->context, dy.wide().view(), r.dropout, want.view());
      expect_close(dx, want, GetParam().activation(2), fmt::format("width {} rate {}", width, rate));
      EXPECT_TRUE(dx == in_place);
    }
}

TEST_P(DropoutOp, AFactorMultipliesWhatIsKept) {
  for (int64_t width : kWidths)
    for (float rate : {0.0f, 0.5f})
      for (bool residual : {true, false}) {
        const Rows r(37, rate);
        const Tensor x = Tensor::random(dtype(), {37, width}, 1), base = Tensor::random(dtype(), {37, width}, 2);
        const Tensor wide_base = base.wide();
        Tensor y = x, want(DType::f64, {37, width}), back = x, want_back = want;
        cpu->ops->dropout_add(cpu->context, y.view(), residual ? base.view() : ConstView(), r.dropout, y.view(), 0.22f);
        reference->ops->dropout_add(reference->context, x.wide().view(), residual ? wide_base.view() : ConstView(),
                                    r.dropout, want.view(), 0.22f);
        cpu->ops->dropout_backward(cpu->context, back.view(), r.dropout, back.view(), 0.22f);
        reference->ops->dropout_backward(reference->context, x.wide().view(), r.dropout, want_back.view(), 0.22f);
        const auto what = fmt::format("width {} rate {} residual {}", width, rate, residual);
        expect_close(y, want, GetParam().activation(4), "forward, " + what);
        expect_close(back, want_back, GetParam().activation(2), "backward, " + what);
      }
}

TEST_P(DropoutOp, MayAddIntoTheResidual) {
  const Rows r(37, 0.2f);
  const Tensor x = Tensor::random(dtype(), {37, 48}, 1), base = Tensor::random(dtype(), {37, 48}, 2);
  Tensor apart(dtype(), {37, 48}), in_place = base;
  cpu->ops->dropout_add(cpu->context, x.view(), base.view(), r.dropout, apart.view());
  cpu->ops->dropout_add(cpu->context, x.view(), in_place.view(), r.dropout, in_place.view());
  EXPECT_TRUE(apart == in_place);
}

TEST_P(DropoutOp, ARowKeepsItsMaskWhereverItLies) {
  const Rows all(37, 0.5f);
  const Tensor x = Tensor::random(dtype(), {37, 768}, 1);
  Tensor whole(dtype(), {37, 768}), tail(dtype(), {9, 768});
  cpu->ops->dropout_add(cpu->context, x.view(), {}, all.dropout, whole.view());
  Dropout slice = all.dropout;
  slice.sample = slice.sample.rows_slice(28, 9);
  slice.position = slice.position.rows_slice(28, 9);
  cpu->ops->dropout_add(cpu->context, x.view().rows_slice(28, 9), {}, slice, tail.view());
  for (size_t i = 0; i < tail.size(); ++i) ASSERT_EQ(tail.at(i), whole.at(28 * 768 + i));
}

TEST_P(DropoutOp, TheShareDroppedIsTheRate) {
  const Rows r(37, 0.25f);
  const Tensor x(dtype(), {37, 1600}, std::vector<double>(37 * 1600, 1));
  Tensor y(dtype(), {37, 1600});
  cpu->ops->dropout_add(cpu->context, x.view(), {}, r.dropout, y.view());
  double dropped = 0;
  for (double v : y.values()) dropped += v == 0;
  EXPECT_NEAR(dropped / (37 * 1600), 0.25, 0.01);  // 5.6 standard deviations
}

TEST(DropoutReference, BackwardEqualsFiniteDifferences) {
  const auto device = Device::reference();
  const Rows r(4, 0.4f);
  const Tensor x = Tensor::random(DType::f64, {4, 7}, 1), dy = Tensor::random(DType::f64, {4, 7}, 2);
  Tensor y = x, dx = x;
  device->ops->dropout_backward(device->context, dy.view(), r.dropout, dx.view(), 0.7f);
  const auto loss = [&](const Tensor& at) {
    device->ops->dropout_add(device->context, at.view(), x.view(), r.dropout, y.view(), 0.7f);
    return dot(y, dy);
  };
  expect_gradient(loss, x, dx, "dx");
}

TEST(DropoutKey, EveryPartOfItMatters) {
  const uint64_t key = dropout_key(1, 2, 3, 4);
  EXPECT_NE(key, dropout_key(2, 2, 3, 4));
  EXPECT_NE(key, dropout_key(1, 3, 3, 4));
  EXPECT_NE(key, dropout_key(1, 2, 4, 4));
  EXPECT_NE(key, dropout_key(1, 2, 3, 5));
}

}  // namespace
}  // namespace trireme::test
