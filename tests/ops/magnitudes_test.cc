#include <array>
#include <cmath>

#include "tests/ops/op_test.h"
#include "tests/support/expect_error.h"

namespace trireme::test {
namespace {

DType statistic(DType a) { return a == DType::f64 ? DType::f64 : DType::f32; }

/// A linear's weights with an adapter.
struct Rows {
  Tensor w, b, a, squares;
  Rows(DType type, int64_t out, int64_t in, int64_t rank)
      : w(Tensor::random(type, {out, in}, 1)),
        b(Tensor::random(type, {out, rank}, 2)),
        a(Tensor::random(type, {rank, in}, 3)),
        squares(statistic(type), {out}) {}
  Rows wide() const {
    Rows r = *this;
    for (Tensor* t : {&r.w, &r.b, &r.a, &r.squares}) *t = t->wide();
    return r;
  }
  void run(Device& d) { d.ops->low_rank_squares(d.context, w.view(), b.view(), a.view(), squares.view()); }
};

/// Outputs of a linear before and after they are scaled.
struct Columns {
  Tensor x, factors, bias, y, dy, dx, products;
  Columns(DType type, int64_t rows, int64_t width)
      : x(Tensor::random(type, {rows, width}, 1)),
        factors(Tensor::random(statistic(type), {width}, 2, 0.3, 1)),
        bias(Tensor::random(type, {width}, 3)),
        y(type, {rows, width}),
        dy(Tensor::random(type, {rows, width}, 4)),
        dx(type, {rows, width}),
        products(statistic(type), {width}) {}
  Columns wide() const {
    Columns c = *this;
    for (Tensor* t : {&c.x, &c.factors, &c.bias, &c.y, &c.dy, &c.dx, &c.products}) *t = t->wide();
    return c;
  }
  void forward(Device& d, bool biased = true) {
    d.ops->scale_columns(d.context, x.view(), factors.view(), biased ? bias.view() : View(), y.view());
  }
  void backward(Device& d) {
    d.ops->scale_columns_backward(d.context, dy.view(), x.view(), factors.view(), dx.view(), products.view());
  }
};

class Magnitudes : public CpuOp {};
INSTANTIATE_TEST_SUITE_P(Cpu, Magnitudes, every_case(), case_name);

TEST_P(Magnitudes, SquaresOfRowsEqualTheReference) {
  for (const auto& [out, in, rank] : {std::array<int64_t, 3>{1, 1, 1}, {7, 33, 3}, {13, 100, 16}, {65, 257, 5}}) {
    Rows got(dtype(), out, in, rank), want = got.wide();
    got.run(*cpu);
    want.run(*reference);
    expect_close(got.squares, want.squares, {5e-6, 1e-6}, fmt::format("{} x {}, rank {}", out, in, rank));
  }
}

TEST_P(Magnitudes, ScalingEqualsTheReference) {
  for (const int64_t rows : {1, 3, 37})
    for (const int64_t width : {1, 16, 99, 256})
      for (const bool biased : {true, false}) {
        Columns got(dtype(), rows, width), want = got.wide();
        got.forward(*cpu, biased);
        want.forward(*reference, biased);
        got.backward(*cpu);
        want.backward(*reference);
        const auto what = fmt::format("rows {} width {}", rows, width);
        expect_close(got.y, want.y, GetParam().activation(4), "y, " + what);
        expect_close(got.dx, want.dx, GetParam().activation(2), "dx, " + what);
        expect_close(got.products, want.products, {2e-6, 2e-5}, "products, " + what);
      }
}

TEST_P(Magnitudes, ScalingInPlaceHasTheSameBits) {
  Columns apart(dtype(), 37, 99), placed = apart;
  apart.forward(*cpu);
  apart.backward(*cpu);
  Tensor x = placed.x;
  cpu->ops->scale_columns(cpu->context, x.view(), placed.factors.view(), placed.bias.view(), x.view());
  EXPECT_TRUE(x == apart.y);
  x = placed.x;
  cpu->ops->scale_columns_backward(cpu->context, placed.dy.view(), x.view(), placed.factors.view(), x.view(),
                                   placed.products.view());
  EXPECT_TRUE(x == apart.dx);
  EXPECT_TRUE(placed.products == apart.products);
}

TEST_P(Magnitudes, FactorsAreMagnitudesByLengthsAndOneWhereThereIsNone) {
  const DType type = dtype() == DType::f64 ? DType::f64 : DType::f32;
  Tensor magnitudes(type, {4}, {2, 0, -3, 1}), squares(type, {4}, {4, 9, 2.25, 16}), factors(type, {4}),
      inverses(type, {4});
  cpu->ops->magnitude_factors(cpu->context, magnitudes.view(), squares.view(), factors.view(), inverses.view());
  EXPECT_TRUE(factors == Tensor(type, {4}, {1, 1, -2, 0.25}));
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(inverses.at(i), 1 / std::sqrt(squares.at(i)), 1e-7);
}

TEST(MagnitudesReference, BackwardEqualsFiniteDifferences) {
  const auto device = Device::reference();
  Columns c(DType::f64, 3, 7);
  c.backward(*device);
  const auto loss = [&](Tensor Columns::*input) {
    return [&, input](const Tensor& value) {
      Columns moved = c;
      moved.*input = value;
      moved.forward(*device);
      return dot(moved.y, c.dy);
    };
  };
  expect_gradient(loss(&Columns::x), c.x, c.dx, "dx");
  expect_gradient(loss(&Columns::factors), c.factors, c.products, "factors");
}

TEST(MagnitudesReference, SquaresAreThoseOfTheSum) {
  const auto device = Device::reference();
  Rows r(DType::f64, 1, 2, 1);
  r.w = Tensor(DType::f64, {1, 2}, {1, 2});
  r.b = Tensor(DType::f64, {1, 1}, {2});
  r.a = Tensor(DType::f64, {1, 2}, {1, 1});
  r.run(*device);
  EXPECT_EQ(r.squares.at(0), 3 * 3 + 4 * 4);
}

TEST(MagnitudesReference, RefuseWhatDoesNotFit) {
  const auto device = Device::reference();
  Rows r(DType::f64, 3, 4, 2);
  Columns c(DType::f64, 3, 4);
  EXPECT_ERROR(device->ops->low_rank_squares(device->context, r.w.view(), r.a.view(), r.a.view(), r.squares.view()),
               ErrorKind::shape, "low_rank_squares: b is f64 [2, 4], expected f64 [3, 2]");
  EXPECT_ERROR(device->ops->scale_columns(device->context, c.x.view(), r.squares.view(), {}, c.y.view()),
               ErrorKind::shape, "scale_columns: factors is f64 [3], expected f64 [4]");
  EXPECT_ERROR(device->ops->scale_columns_backward(device->context, c.dy.view(), c.x.view(), c.factors.view(),
                                                   c.dx.view(), r.squares.view()),
               ErrorKind::shape, "scale_columns_backward: products is f64 [3], expected f64 [4]");
  EXPECT_ERROR(device->ops->magnitude_factors(device->context, c.factors.view(), r.squares.view(), c.factors.view(),
                                              c.factors.view()),
               ErrorKind::shape, "magnitude_factors: squares is f64 [3], expected f64 [4]");
}

}  // namespace
}  // namespace trireme::test
