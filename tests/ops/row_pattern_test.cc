#include "tests/ops/op_test.h"
#include "tests/support/expect_error.h"

namespace trireme::test {
namespace {

/// A small matrix, and a large one that has it in some rows and columns.
struct Part {
  RowPattern pattern;
  int64_t groups, width, column, wide;
};

constexpr Part kParts[] = {
    {{0, 1, 1}, 7, 5, 0, 5},                                    // all
    {{0, 64, 128}, 3, 16, 0, 48},                               // queries
    {{64, 32, 128}, 3, 16, 32, 48}, {{1, 1, 2}, 40, 3, 8, 11},  // ups
    {{2, 3, 9}, 0, 4, 1, 6},                                    // no rows
};

class RowPatterns : public CpuOp {};
INSTANTIATE_TEST_SUITE_P(Cpu, RowPatterns, every_case(), case_name);

TEST_P(RowPatterns, PlaceEqualsTheReferenceAndKeepsTheOthers) {
  for (const Part& part : kParts)
    for (const float factor : {1.0f, 0.3f}) {
      const int64_t rows = part.groups * part.pattern.stride;
      const Tensor x = Tensor::random(dtype(), {part.pattern.share(rows), part.width}, 1);
      Tensor y = Tensor::random(dtype(), {rows, part.wide}, 2), want = y.wide();
      cpu->ops->place_rows(cpu->context, x.view(), part.pattern, part.column, factor, y.view());
      reference->ops->place_rows(reference->context, x.wide().view(), part.pattern, part.column, factor, want.view());
      const double smallest = dtype() == DType::f16 ? 0x1.1p-25 : 0;  // half a step of numbers below 2^-14
      expect_close(y, want, {rounding(dtype(), 1e-7), smallest},
                   fmt::format("{} groups, factor {}", part.groups, factor));
    }
}

TEST_P(RowPatterns, TakeEqualsTheReferenceAndIsWhatPlacePut) {
  for (const Part& part : kParts)
    for (const Write write : {Write::overwrite, Write::add}) {
      const int64_t rows = part.groups * part.pattern.stride;
      const Tensor x = Tensor::random(DType::f32, {rows, part.wide}, 1);
      Tensor y = Tensor::random(DType::f32, {part.pattern.share(rows), part.width}, 2), want = y.wide();
      cpu->ops->take_rows(cpu->context, x.view(), part.pattern, part.column, 0.3f, y.view(), write);
      reference->ops->take_rows(reference->context, x.wide().view(), part.pattern, part.column, 0.3f, want.view(),
                                write);
      expect_close(y, want, {1e-6, 1e-7}, fmt::format("{} groups", part.groups));
    }
}

TEST_P(RowPatterns, AddIsTheOverwriteSumAddedOnce) {
  const Tensor x = Tensor::random(DType::f32, {96, 20}, 1);
  Tensor y = Tensor::random(DType::f32, {32, 9}, 2), apart(DType::f32, {32, 9});
  const Tensor before = y;
  cpu->ops->take_rows(cpu->context, x.view(), {1, 1, 3}, 4, 0.7f, apart.view(), Write::overwrite);
  cpu->ops->take_rows(cpu->context, x.view(), {1, 1, 3}, 4, 0.7f, y.view(), Write::add);
  for (size_t i = 0; i < y.size(); ++i)
    ASSERT_EQ(static_cast<float>(y.at(i)), static_cast<float>(before.at(i)) + static_cast<float>(apart.at(i)));
}

TEST(RowPatternsReference, TakeIsTheGradientOfPlace) {
  const auto device = Device::reference();
  const RowPattern pattern{1, 2, 4};
  const Tensor dy = Tensor::random(DType::f64, {12, 7}, 3), x = Tensor::random(DType::f64, {6, 3}, 4);
  Tensor dx(DType::f64, {6, 3});
  device->ops->take_rows(device->context, dy.view(), pattern, 2, 0.6f, dx.view(), Write::overwrite);
  expect_gradient(
      [&](const Tensor& moved) {
        Tensor y(DType::f64, {12, 7});
        device->ops->place_rows(device->context, moved.view(), pattern, 2, 0.6f, y.view());
        return dot(y, dy);
      },
      x, dx, "dx");
}

TEST(RowPatternsReference, RefuseWhatDoesNotFit) {
  const auto device = Device::reference();
  Tensor x(DType::f64, {4, 3}), y(DType::f64, {8, 5});
  EXPECT_ERROR(device->ops->place_rows(device->context, x.view(), {1, 2, 2}, 0, 1, y.view()), ErrorKind::shape,
               "place_rows: rows 1 to 3 of each 2 do not fit a matrix of 8 rows");
  EXPECT_ERROR(device->ops->place_rows(device->context, x.view(), {1, 1, 2}, 3, 1, y.view()), ErrorKind::shape,
               "place_rows: f64 [4, 3] at column 3 does not fit 1 of each 2 rows of f64 [8, 5]");
  EXPECT_ERROR(device->ops->take_rows(device->context, y.view(), {0, 1, 4}, 0, 1, x.view(), Write::add),
               ErrorKind::shape, "take_rows: f64 [4, 3] at column 0 does not fit 1 of each 4 rows of f64 [8, 5]");
}

}  // namespace
}  // namespace trireme::test
