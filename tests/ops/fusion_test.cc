// Operators that are two others in one pass: the bits of calling both in turn, on every backend.

#include "tests/ops/op_test.h"

namespace trireme::test {
namespace {

class Fusions : public CpuOp {};
INSTANTIATE_TEST_SUITE_P(Cpu, Fusions, every_case(), case_name);

/// Widths whose rows a GPU's warp holds in 1 to 8 packs per lane, or does not hold.
constexpr int64_t kNormWidths[] = {1, 7, 48, 300, 768, 1024, 1600, 2304};

struct Residual {
  Tensor x, residual, w, b, sample, position, sum, y, mean, rstd;
  bool centered;
  float rate, factor;

  Residual(DType a, int64_t rows, int64_t width, bool centered_, float rate_, float factor_)
      : centered(centered_), rate(rate_), factor(factor_) {
    const DType s = a == DType::f64 ? DType::f64 : DType::f32;
    x = Tensor::random(a, {rows, width}, 1);
    residual = Tensor::random(a, {rows, width}, 2, 1.5, 0.3);
    w = Tensor::random(a, {width}, 3, 0.2, centered ? 1 : 0);
    b = Tensor::random(a, {width}, 4);
    sum = y = Tensor(a, {rows, width});
    mean = rstd = Tensor(s, {rows});
    sample = Tensor(DType::i64, {rows});
    position = Tensor(DType::i32, {rows});
    for (size_t row = 0; row < sample.size(); ++row) {
      sample.set(row, row < 20 ? 5 : 0x1'2345'6789);
      position.set(row, static_cast<double>(row % 20));
    }
  }
  Residual wide() const {
    Residual r = *this;
    for (Tensor* t : {&r.x, &r.residual, &r.w, &r.b, &r.sum, &r.y, &r.mean, &r.rstd}) *t = t->wide();
    return r;
  }
  Dropout dropout() const { return {rate, dropout_key(1, 2, 3, 4), sample.view(), position.view()}; }
  RowNorm norm() const {
    RowNorm n{.w = w.view(), .centered = centered, .offset = centered ? 0.0f : 1.0f};
    if (centered) n.b = b.view();
    return n;
  }
  void together(Device& d) { run(d, sum.view(), y.view()); }
  void run(Device& d, View to_sum, View to_y) {
    d.ops->dropout_add_norm(d.context, x.view(), residual.view(), dropout(), factor, to_sum, norm(), to_y,
                            centered ? mean.view() : View(), rstd.view());
  }
  void in_turn(Device& d) {
    const RowNorm n = norm();
    d.ops->dropout_add(d.context, x.view(), residual.view(), dropout(), sum.view(), factor);
    if (centered) {
      d.ops->layer_norm(d.context, sum.view(), n.w, n.b, n.epsilon, y.view(), mean.view(), rstd.view());
    } else {
      d.ops->rms_norm(d.context, sum.view(), n.w, n.offset, n.epsilon, y.view(), rstd.view());
    }
  }
};

template <class F>
void for_every_residual(DType dtype, std::initializer_list<int64_t> rows, F&& check) {
  for (int64_t n : rows)
    for (int64_t width : kNormWidths)
      for (bool centered : {true, false})
        for (float rate : {0.0f, 0.3f})
          check(Residual(dtype, n, width, centered, rate, rate > 0 ? 1 : 0.5f),
                fmt::format("{} x {}, {} norm, rate {}", n, width, centered ? "layer" : "RMS", rate));
}

TEST_P(Fusions, ResidualAndNormHaveTheBitsOfBothInTurn) {
  for_every_residual(dtype(), {0, 1, 9}, [&](Residual got, const std::string& what) {
    Residual want = got;
    got.together(*cpu);
    want.in_turn(*cpu);
    EXPECT_TRUE(got.sum == want.sum) << "sum, " << what;
    EXPECT_TRUE(got.y == want.y) << "y, " << what;
    EXPECT_TRUE(got.mean == want.mean && got.rstd == want.rstd) << "statistics, " << what;
  });
}

TEST_P(Fusions, ResidualAndNormEqualTheReference) {
  for_every_residual(dtype(), {9}, [&](Residual got, const std::string& what) {
    Residual want = got.wide();
    got.together(*cpu);
    want.together(*reference);
    // A row of one element has a deviation of 0: what is left of its rounding is multiplied by rstd.
    if (got.centered && got.x.size() == 9) return;
    expect_close(got.sum, want.sum, GetParam().activation(4), "sum, " + what);
    // The sum is rounded before it is normalised, and rows of 7 values divide by small deviations.
    const Tolerance t = GetParam().activation(8);
    expect_close(got.y, want.y, {4 * t.relative, t.absolute + 8 * rounding(dtype(), 0)}, "y, " + what);
  });
}

TEST_P(Fusions, SumAndNormMayTakeThePlacesOfTheirInputs) {
  for_every_residual(dtype(), {9}, [&](const Residual& apart_, const std::string& what) {
    Residual apart = apart_, crossed = apart_, straight = apart_;
    apart.together(*cpu);
    crossed.run(*cpu, crossed.x.view(), crossed.residual.view());
    straight.run(*cpu, straight.residual.view(), straight.x.view());
    EXPECT_TRUE(crossed.x == apart.sum && crossed.residual == apart.y) << what;
    EXPECT_TRUE(straight.residual == apart.sum && straight.x == apart.y) << what;
  });
}

struct Slope {
  Tensor dy, x, dx, db;

  Slope(DType a, int64_t rows, int64_t width)
      : dy(Tensor::random(a, {rows, width}, 1)),
        x(Tensor::random(a, {rows, width}, 2, 3)),
        dx(a, {rows, width}),
        db(Tensor::random(a == DType::f64 ? DType::f64 : DType::f32, {width}, 3)) {}
  void together(Device& d, Activation f, Write write) {
    d.ops->activation_bias_backward(d.context, dy.view(), x.view(), f, dx.view(), db.view(), write);
  }
};

constexpr Activation kActivations[] = {Activation::gelu_tanh, Activation::gelu_erf, Activation::relu,
                                       Activation::tanh,      Activation::silu,     Activation::relu2};

TEST_P(Fusions, ActivationAndBiasGradientHaveTheBitsOfBothInTurn) {
  for (int64_t rows : {0, 1, 37, 300})
    for (int64_t width : {1, 7, 48, 300, 1600})
      for (Activation f : kActivations) {
        if (rows == 300 && f != Activation::gelu_tanh) continue;
        const Write write = width == 48 ? Write::overwrite : Write::add;
        Slope got(dtype(), rows, width), want = got, in_place = got;
        got.together(*cpu, f, write);
        cpu->ops->activation_backward(cpu->context, want.dy.view(), want.x.view(), f, want.dx.view());
        cpu->ops->bias_backward(cpu->context, want.dx.view(), want.db.view(), write);
        cpu->ops->activation_bias_backward(cpu->context, in_place.dy.view(), in_place.x.view(), f, in_place.dy.view(),
                                           in_place.db.view(), write);
        const auto what = fmt::format("f {}, {} x {}", static_cast<int>(f), rows, width);
        EXPECT_TRUE(got.dx == want.dx) << "dx, " << what;
        EXPECT_TRUE(got.db == want.db) << "db, " << what;
        EXPECT_TRUE(in_place.dy == want.dx && in_place.db == want.db) << "in place, " << what;
      }
}

TEST_P(Fusions, ActivationAndBiasGradientEqualTheReference) {
  for (Activation f : kActivations) {
    Slope got(dtype(), 37, 300), want = got;
    for (Tensor* t : {&want.dy, &want.x, &want.dx, &want.db}) *t = t->wide();
    got.together(*cpu, f, Write::add);
    want.together(*reference, f, Write::add);
    const auto what = fmt::format("f {}", static_cast<int>(f));
    expect_close(got.dx, want.dx, GetParam().activation(2), "dx, " + what);
    // The sum is of 37 values up to 4, each rounded.
    expect_close(got.db, want.db, {1e-6, 37 * 4 * rounding(dtype(), 1e-6)}, "db, " + what);
  }
}

}  // namespace
}  // namespace trireme::test
