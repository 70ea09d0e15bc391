#include "ops/cpu/tiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tensor/dtype.h"
#include "tests/ops/op_test.h"

namespace trireme::test {
namespace {

/// sums [rows, columns] += a [rows, 2 steps] b [steps, 2 columns] with values whose products are not exact in f32 when
/// added; the same for emulated and real registers.
struct Product {
  size_t rows, steps, columns;
  std::vector<bf16_t> a, b;
  std::vector<float> sums;

  Product(size_t m, size_t k, size_t n) : rows(m), steps(k), columns(n) {
    const auto value = [&](size_t i, double scale) { return std::sin(static_cast<double>(i) * 1.37 + scale) * scale; };
    for (size_t i = 0; i < m * 2 * k; ++i) a.push_back(to_bf16(static_cast<float>(value(i, 1.7))));
    for (size_t i = 0; i < k * 2 * n; ++i) b.push_back(to_bf16(static_cast<float>(value(i, 0.9))));
    for (size_t i = 0; i < m * n; ++i) sums.push_back(static_cast<float>(value(i, 3.1)));
  }
  static int64_t bytes(size_t lanes) { return static_cast<int64_t>(4 * lanes); }
  tiles::Shapes shapes() const {
    tiles::Shapes s;
    const auto set = [&](int tile, size_t r, size_t bytes) {
      s.rows[tile] = static_cast<uint8_t>(r);
      s.row_bytes[tile] = static_cast<uint16_t>(bytes);
    };
    set(0, rows, 4 * columns);
    set(4, rows, 4 * steps);
    set(6, steps, 4 * columns);
    return s;
  }
  std::vector<float> emulated() const {
    std::vector<float> result = sums;
    tiles::emulated::configure(shapes());
    tiles::emulated::load(0, sums.data(), bytes(columns));
    tiles::emulated::load(4, a.data(), bytes(steps));
    tiles::emulated::load(6, b.data(), bytes(columns));
    tiles::emulated::multiply_add(0, 4, 6);
    tiles::emulated::store(0, result.data(), bytes(columns));
    tiles::emulated::release();
    return result;
  }
  std::vector<float> in_registers() const {
    std::vector<float> result = sums;
    tiles::configure(shapes());
    tiles::load<0>(sums.data(), bytes(columns));
    tiles::load<4>(a.data(), bytes(steps));
    tiles::load<6>(b.data(), bytes(columns));
    tiles::multiply_add<0, 4, 6>();
    tiles::store<0>(result.data(), bytes(columns));
    tiles::release();
    return result;
  }
  /// Element [m, n] in float64.
  double exact(size_t m, size_t n) const {
    double sum = static_cast<double>(sums[m * columns + n]);
    for (size_t k = 0; k < 2 * steps; ++k)
      sum += static_cast<double>(to_float(a[m * 2 * steps + k])) *
             static_cast<double>(to_float(b[(k / 2 * columns + n) * 2 + k % 2]));
    return sum;
  }
};

const Product kProducts[] = {{16, 16, 16}, {1, 16, 16}, {7, 3, 5}, {16, 1, 1}};

TEST(Tiles, EmulatedMultiplyPairsAndAddInF32) {
  for (const Product& product : kProducts) {
    const std::vector<float> got = product.emulated();
    for (size_t m = 0; m < product.rows; ++m)
      for (size_t n = 0; n < product.columns; ++n)
        EXPECT_NEAR(static_cast<double>(got[m * product.columns + n]), product.exact(m, n), 1e-5)
            << product.rows << " x " << product.steps << " x " << product.columns << " at " << m << ", " << n;
  }
}

TEST(Tiles, EmulatedGiveTheBitsOfTheCpus) {
  if (!cpu_facts().amx || !cpu_facts().tiles_off.empty() || emulates_tiles()) GTEST_SKIP() << "this CPU has no AMX";
  for (const Product& product : kProducts) EXPECT_EQ(product.in_registers(), product.emulated());
}

TEST(Tiles, BytesOutsideARegistersShapeAreUnchanged) {
  const Product product(7, 3, 5);
  std::vector<float> memory(16 * 16, 42.0f);
  tiles::emulated::configure(product.shapes());
  tiles::emulated::zero(0);
  tiles::emulated::store(0, memory.data(), 64);
  tiles::emulated::release();
  for (size_t m = 0; m < 16; ++m)
    for (size_t n = 0; n < 16; ++n) EXPECT_EQ(memory[16 * m + n], m < 7 && n < 5 ? 0.0f : 42.0f);
}

TEST(TilesDeathTest, WhatACpuWouldRefuseEndsTheProgram) {
  const auto with = [](const char* what, auto change, auto use) {
    EXPECT_DEATH(
        {
          tiles::Shapes shapes = Product(16, 16, 16).shapes();
          change(shapes);
          tiles::emulated::configure(shapes);
          use();
        },
        what);
  };
  const auto nothing = [] {};
  const auto as_they_are = [](tiles::Shapes&) {};
  const auto product = [] { tiles::emulated::multiply_add(0, 4, 6); };
  EXPECT_DEATH(product(), "no shapes are set");
  with("the register has no rows", as_they_are, [] { tiles::emulated::zero(3); });
  with("one register twice", as_they_are, [] { tiles::emulated::multiply_add(0, 4, 4); });
  with(
      "too many rows", [](tiles::Shapes& s) { s.rows[0] = 17; }, nothing);
  with(
      "rows of odd length", [](tiles::Shapes& s) { s.row_bytes[0] = 6; }, nothing);
  with(
      "rows without bytes", [](tiles::Shapes& s) { s.row_bytes[0] = 0; }, nothing);
  with(
      "unknown palette", [](tiles::Shapes& s) { s.palette = 2; }, nothing);
  with(
      "rows of the sums", [](tiles::Shapes& s) { s.rows[4] = 8; }, product);
  with(
      "columns of the sums", [](tiles::Shapes& s) { s.row_bytes[6] = 32; }, product);
  with(
      "steps of the operands", [](tiles::Shapes& s) { s.row_bytes[4] = 32; }, product);
}

}  // namespace
}  // namespace trireme::test
