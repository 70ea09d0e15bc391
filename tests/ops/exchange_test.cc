// Operators of the gradient exchange, whose loops tests/ops/exchange_kernels_test.cc covers.

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "ops/ops.h"
#include "tests/ops/op_test.h"
#include "tests/support/vector_view.h"

namespace trireme {
namespace {

using Map = std::vector<int64_t>;

std::unique_ptr<Ops> tested_ops() { return test::make_tested_ops(1); }

class Exchange : public testing::TestWithParam<std::unique_ptr<Ops> (*)()> {
 protected:
  static View table(std::vector<float>& x, int64_t rows) {
    return view(x).reshape({rows, static_cast<int64_t>(x.size()) / rows});
  }
  std::unique_ptr<Ops> ops_ = GetParam()();
  Context context_;
};
INSTANTIATE_TEST_SUITE_P(Backends, Exchange, testing::Values(tested_ops, make_reference_ops));

/// [rows, width], each row touched with the given probability, by one element.
std::vector<float> sparse(int64_t rows, int64_t width, double probability, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> x(static_cast<size_t>(rows * width));
  for (int64_t row = 0; row < rows; ++row) {
    if (std::bernoulli_distribution(probability)(random)) {
      x[static_cast<size_t>(row * width) + random() % static_cast<size_t>(width)] = static_cast<float>(row + 1);
    }
  }
  return x;
}

TEST_P(Exchange, UnpackUndoesPack) {
  const bool leaves_zeros_alone = ops_->name() == "cpu";
  for (const int64_t width : {1, 3, 64, 131}) {
    for (const double probability : {0.0, 0.1, 0.7, 1.0}) {
      const int64_t rows = 200;
      const auto before = sparse(rows, width, probability, 7);
      auto x = before;
      Map map(4);
      ops_->mark_rows(context_, table(x, rows), view(map));
      ops_->pack_rows(context_, table(x, rows), view(map));
      const auto marked = [&](int64_t row) { return (map[static_cast<size_t>(row / 64)] >> (row % 64) & 1) != 0; };
      int64_t packed = 0;
      for (int64_t row = 0; row < rows; ++row) packed += marked(row) ? 1 : 0;
      for (int64_t row = 0; row < packed; ++row) {
        bool touched = false;
        for (int64_t i = 0; i < width; ++i) touched = touched || x[static_cast<size_t>(row * width + i)] != 0;
        ASSERT_TRUE(touched);
      }
      auto expected = before;
      for (int64_t row = packed; row < rows; ++row) {  // undefined after pack
        std::fill_n(x.begin() + row * width, width, marked(row) ? 99.0f : -1.0f);
        if (!marked(row) && leaves_zeros_alone) std::fill_n(expected.begin() + row * width, width, -1.0f);
      }
      ops_->unpack_rows(context_, table(x, rows), view(map));
      EXPECT_EQ(x, expected) << width << " " << probability;
    }
  }
}

TEST_P(Exchange, ANegativeZeroIsATouch) {
  std::vector<float> x(6);
  x[3] = -0.0f;
  Map map(1);
  ops_->mark_rows(context_, table(x, 3), view(map));
  EXPECT_EQ(map[0], 0b010);
}

TEST_P(Exchange, MarkedRowsThatAreZeroHereAreKeptToo) {  // another rank touched them
  std::vector<float> x{0, 1, 0, 2};
  const Map map{0b1101};
  ops_->pack_rows(context_, table(x, 4), view(map));
  EXPECT_EQ(std::vector<float>(x.begin(), x.begin() + 3), (std::vector<float>{0, 0, 2}));
  ops_->unpack_rows(context_, table(x, 4), view(map));
  EXPECT_EQ(x, (std::vector<float>{0, 0, 0, 2}));
}

TEST_P(Exchange, ContributionsAreAddedInOrderAndRoundedWithTheOwnOne) {
  const auto reference = make_reference_ops();
  for (const DType wire : {DType::f32, DType::bf16}) {
    const int64_t n = 77;
    Arena memory(1 << 16);
    std::vector<float> own, own_again;
    for (int64_t i = 0; i < n; ++i) own.push_back(1e4f / static_cast<float>(i + 3));
    own_again = own;
    std::vector<ConstView> parts;
    for (int r = 0; r < 3; ++r) {
      std::vector<float> values;
      for (int64_t i = 0; i < n; ++i) values.push_back(1.0f / static_cast<float>(i + r + 1));
      const View part = memory.take(wire, {n});
      ops_->wire_cast(context_, view(values), part);
      parts.push_back(r == 1 ? ConstView() : ConstView(part));
    }
    const View sum = memory.take(wire, {n}), expected = memory.take(wire, {n});
    ops_->sum_contributions(context_, parts, view(own), sum);
    reference->sum_contributions(context_, parts, view(own_again), expected);
    EXPECT_EQ(own, own_again);
    std::vector<float> widened(own.size());
    ops_->wire_cast(context_, sum, view(widened));
    EXPECT_EQ(widened, own);
    EXPECT_EQ(std::memcmp(sum.data(), expected.data(), sum.bytes()), 0);
  }
}

TEST_P(Exchange, RefusesOtherTypesAndShapes) {
  std::vector<float> x(6);
  std::vector<double> wide(6);
  Map map(2);
  const auto message = [](auto call) -> std::string {
    try {
      call();
    } catch (const std::exception& e) {
      return e.what();
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(message([&] { ops_->wire_cast(context_, view(x), view(wide)); }),
            "wire_cast: x is f32 [6], y is f64 [6], expected f32 or bf16");
  EXPECT_EQ(message([&] { ops_->mark_rows(context_, table(x, 3), view(map)); }),
            "mark_rows: map is i64 [2], expected i64 [1]");
  EXPECT_EQ(message([&] { ops_->sum_contributions(context_, {}, view(x), view(x)); }),
            "sum_contributions: parts are empty");
}

}  // namespace
}  // namespace trireme
