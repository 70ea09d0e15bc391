#include "optim/touched_rows.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace trireme {
namespace {

using Map = std::vector<uint64_t>;

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

TEST(TouchedRows, UnpackUndoesPack) {
  for (const int64_t width : {1, 3, 64, 131}) {
    for (const double probability : {0.0, 0.1, 0.7, 1.0}) {
      const int64_t rows = 200;
      const auto before = sparse(rows, width, probability, 7);
      auto x = before;
      Map map(static_cast<size_t>(touched_rows::map_words(rows)));
      touched_rows::mark(x.data(), rows, width, map);
      const int64_t packed = touched_rows::pack(x.data(), rows, width, map);
      for (int64_t row = 0; row < packed; ++row) {
        bool touched = false;
        for (int64_t i = 0; i < width; ++i) touched = touched || x[static_cast<size_t>(row * width + i)] != 0;
        ASSERT_TRUE(touched);
      }
      auto expected = before;
      for (int64_t row = packed; row < rows; ++row) {
        const bool marked = (map[static_cast<size_t>(row / 64)] >> (row % 64) & 1) != 0;
        std::fill_n(x.begin() + row * width, width, marked ? 99.0f : -1.0f);     // where it lay, undefined after pack
        if (!marked) std::fill_n(expected.begin() + row * width, width, -1.0f);  // not written: it is zero already
      }
      touched_rows::unpack(x.data(), rows, width, map);
      EXPECT_EQ(x, expected) << width << " " << probability;
    }
  }
}

TEST(TouchedRows, ANegativeZeroIsATouch) {
  std::vector<float> x(6);
  x[3] = -0.0f;
  Map map(1);
  touched_rows::mark(x.data(), 3, 2, map);
  EXPECT_EQ(map[0], 0b010u);
}

TEST(TouchedRows, MarkedRowsThatAreZeroHereAreKeptToo) {  // another rank touched them
  std::vector<float> x{0, 1, 0, 2};
  const Map map{0b1101};
  EXPECT_EQ(touched_rows::pack(x.data(), 4, 1, map), 3);
  EXPECT_EQ(std::vector<float>(x.begin(), x.begin() + 3), (std::vector<float>{0, 0, 2}));
  touched_rows::unpack(x.data(), 4, 1, map);
  EXPECT_EQ(x, (std::vector<float>{0, 0, 0, 2}));
}

}  // namespace
}  // namespace trireme
