#include <cmath>

#include "base/error.h"
#include "tests/ops/op_test.h"
#include "tests/support/expect_error.h"

namespace trireme::test {
namespace {

/// base^(-i / (dims / 2))
std::vector<float> frequencies(double base, int64_t dims) {
  std::vector<float> out;
  for (int64_t i = 0; i < dims / 2; ++i)
    out.push_back(static_cast<float>(std::pow(base, -2 * static_cast<double>(i) / static_cast<double>(dims))));
  return out;
}

class Rotary : public CpuOp {
 protected:
  DType statistic(const Device& device) const { return &device == reference.get() ? DType::f64 : DType::f32; }
  Tensor table(Device& device, int64_t positions, int64_t dims) const {
    Tensor t(statistic(device), {positions, dims});
    device.ops->rotary_table(device.context, frequencies(10000, dims), 1.25, t.view());
    return t;
  }
};
INSTANTIATE_TEST_SUITE_P(Cpu, Rotary, every_case(), case_name);

Tensor some_positions(int64_t rows, int64_t limit) {
  Tensor positions(DType::i32, {rows});
  for (size_t i = 0; i < positions.size(); ++i)
    positions.set(i, static_cast<double>((i * 7 + 3) % static_cast<size_t>(limit)));
  return positions;
}

TEST_P(Rotary, BothDirectionsEqualTheReference) {
  struct Heads {
    int64_t kv_heads, group, head_dim, dims;
  };
  for (int64_t rows : kRows)
    for (const auto& [kv_heads, group, head_dim, dims] :
         {Heads{3, 1, 8, 2}, {3, 1, 8, 8}, {2, 3, 64, 16}, {1, 4, 80, 80}, {3, 2, 96, 24}, {3, 1, 7, 6}}) {
      const Tensor positions = some_positions(rows, 50);
      const Tensor x = Tensor::random(dtype(), {rows, kv_heads, group + 2, head_dim}, 1);
      const Tensor fast = table(*cpu, 50, dims), exact = table(*reference, 50, dims);
      expect_close(fast, exact, {1e-7, 1e-7}, "table");
      Tensor got = x, want = x.wide();
      cpu->ops->rotary(cpu->context, got.view(), positions.view(), fast.view());
      reference->ops->rotary(reference->context, want.view(), positions.view(), exact.view());
      expect_close(got, want, GetParam().activation(), "forward");
      got = x, want = x.wide();
      cpu->ops->rotary_backward(cpu->context, got.view(), positions.view(), fast.view());
      reference->ops->rotary_backward(reference->context, want.view(), positions.view(), exact.view());
      expect_close(got, want, GetParam().activation(), "backward");
    }
}

TEST_P(Rotary, TurnsQueriesAndKeyOfAGroupAndNotTheValue) {
  const Tensor x = Tensor::random(dtype(), {1, 2, 5, 8}, 1), positions(DType::i32, {1}, {3});
  const Tensor turns = table(*cpu, 4, 8);
  Tensor y = x;
  cpu->ops->rotary(cpu->context, y.view(), positions.view(), turns.view());
  for (size_t head = 0; head < 2; ++head)
    for (size_t part = 0; part < 5; ++part) {
      Tensor alone(dtype(), {1, 1, 3, 8});  // the same vector as the only query
      for (size_t i = 0; i < 8; ++i) alone.set(i, x.at((head * 5 + part) * 8 + i));
      cpu->ops->rotary(cpu->context, alone.view(), positions.view(), turns.view());
      for (size_t i = 0; i < 8; ++i) {
        const size_t at = (head * 5 + part) * 8 + i;
        EXPECT_EQ(y.at(at), part < 4 ? alone.at(i) : x.at(at)) << at;
      }
    }
}

TEST_P(Rotary, WrongTablesAreErrors) {
  Tensor narrow(statistic(*cpu), {9, 6});
  const std::vector<float> two = {1, 0.5f}, wrong = {1, NAN, 0.5f}, three = {1, 0.5f, 0.25f};
  EXPECT_ERROR(cpu->ops->rotary_table(cpu->context, two, 1, narrow.view()), ErrorKind::shape,
               "rotary_table: table is f32 [9, 6], expected a width of twice 2 frequencies");
  EXPECT_ERROR(cpu->ops->rotary_table(cpu->context, wrong, 1, narrow.view()), ErrorKind::shape,
               "rotary_table: a frequency is nan, expected a finite number");
  EXPECT_ERROR(cpu->ops->rotary_table(cpu->context, three, 0, narrow.view()), ErrorKind::shape,
               "rotary_table: factor is 0, expected a finite number above 0");
  Tensor qkv(dtype(), {2, 1, 2, 8}), positions(DType::i32, {2}, {0, 8});
  EXPECT_ERROR(cpu->ops->rotary(cpu->context, qkv.view(), positions.view(), narrow.view()), ErrorKind::shape,
               "expected at least 3 vectors of each group: a query head, the key and the value");
}

TEST_P(Rotary, ATableThatIsWiderThanAHeadIsAnError) {
  Tensor qkv(dtype(), {2, 1, 3, 4}), positions(DType::i32, {2}, {0, 8});
  const Tensor wide = table(*cpu, 9, 6);
  EXPECT_ERROR(cpu->ops->rotary(cpu->context, qkv.view(), positions.view(), wide.view()), ErrorKind::shape,
               "expected an even width of at most 4");
}

TEST(RotaryReference, TurnsPairsHalfTheBlockApartAndLeavesTheRest) {
  const auto device = Device::reference();
  Tensor table(DType::f64, {3, 4}), positions(DType::i32, {1}, {2});
  device->ops->rotary_table(device->context, frequencies(100, 4), 1, table.view());
  Tensor x(DType::f64, {1, 1, 3, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  device->ops->rotary(device->context, x.view(), positions.view(), table.view());
  const double second = 2 * static_cast<double>(0.1f);  // 100^(-1/2) = 0.1, as f32
  const double c0 = std::cos(2.0), s0 = std::sin(2.0), c1 = std::cos(second), s1 = std::sin(second);
  const std::vector<double> want = {1 * c0 - 3 * s0,
                                    2 * c1 - 4 * s1,
                                    3 * c0 + 1 * s0,
                                    4 * c1 + 2 * s1,
                                    5,
                                    6 * c0 - 8 * s0,
                                    7 * c1 - 9 * s1,
                                    8 * c0 + 6 * s0,
                                    9 * c1 + 7 * s1,
                                    10,
                                    11,
                                    12,
                                    13,
                                    14,
                                    15};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(x.at(i), want[i], 1e-14) << i;
}

TEST(RotaryReference, TurnsEveryQueryHeadOfAGroupAndItsKey) {
  const auto device = Device::reference();
  Tensor table(DType::f64, {6, 4});
  const Tensor positions(DType::i32, {2}, {1, 5});
  device->ops->rotary_table(device->context, frequencies(100, 4), 1, table.view());
  const Tensor before = Tensor::random(DType::f64, {2, 2, 5, 4}, 1);
  Tensor grouped = before;
  device->ops->rotary(device->context, grouped.view(), positions.view(), table.view());
  for (size_t vector = 0; vector < 20; ++vector) {  // each alone, as the query of a group of one
    Tensor alone(DType::f64, {1, 1, 3, 4});
    const Tensor position(DType::i32, {1}, {positions.at(vector / 10)});
    for (size_t c = 0; c < 4; ++c) alone.set(c, before.at(vector * 4 + c));
    if (vector % 5 < 4) device->ops->rotary(device->context, alone.view(), position.view(), table.view());
    for (size_t c = 0; c < 4; ++c) EXPECT_EQ(grouped.at(vector * 4 + c), alone.at(c)) << vector;
  }
}

TEST(RotaryReference, BackwardEqualsFiniteDifferences) {
  const auto device = Device::reference();
  Tensor table(DType::f64, {9, 4});
  const Tensor positions(DType::i32, {2}, {3, 8});
  device->ops->rotary_table(device->context, frequencies(100, 4), 1.5, table.view());
  const Tensor x = Tensor::random(DType::f64, {2, 2, 4, 6}, 1), dy = Tensor::random(DType::f64, {2, 2, 4, 6}, 2);
  Tensor dx = dy;
  device->ops->rotary_backward(device->context, dx.view(), positions.view(), table.view());
  const auto loss = [&](const Tensor& from) {
    Tensor y = from;
    device->ops->rotary(device->context, y.view(), positions.view(), table.view());
    return dot(y, dy);
  };
  expect_gradient(loss, x, dx, "qkv");
}

}  // namespace
}  // namespace trireme::test
