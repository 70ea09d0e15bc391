#include "bench/comm/gradient.h"

#include <gmock/gmock.h>

#include <cstring>

#include "comm/half.h"
#include "tensor/dtype.h"
#include "tests/support/expect_error.h"

namespace trireme::comm_bench {
namespace {

constexpr Element kElements[] = {Element::i8,  Element::u8,  Element::i32, Element::u32, Element::i64,
                                 Element::u64, Element::f16, Element::f32, Element::f64, Element::bf16};
constexpr int64_t kCount = 3000;

/// Combines ranks one after the other in f32, rounded to the type after each, as a reduction over messages does.
template <class T>
void reduce_into(ReduceOp op, T* sum, const T* x) {
  for (int64_t i = 0; i < kCount; ++i) {
    switch (op) {
      case ReduceOp::prod:
        sum[i] = static_cast<T>(sum[i] * x[i]);
        break;
      case ReduceOp::min:
        sum[i] = std::min(sum[i], x[i]);
        break;
      case ReduceOp::max:
        sum[i] = std::max(sum[i], x[i]);
        break;
      default:
        sum[i] = static_cast<T>(sum[i] + x[i]);
    }
  }
}

template <class T>
void expect_reduction_is_known(Element element, ReduceOp op, int ranks) {
  const Pattern pattern(op, ranks, 5);
  std::vector<T> sum(kCount), x(kCount);
  pattern.fill(element, sum.data(), 7, kCount, 0);
  for (int r = 1; r < ranks; ++r) {
    pattern.fill(element, x.data(), 7, kCount, r);
    EXPECT_EQ(pattern.count_wrong(element, x.data(), 7, kCount, r), 0);
    reduce_into(op, sum.data(), x.data());
  }
  if (op == ReduceOp::avg) {
    for (T& value : sum) value = static_cast<T>(value / static_cast<T>(ranks));
  }
  EXPECT_EQ(pattern.count_wrong(element, sum.data(), 7, kCount, -1), 0)
      << static_cast<int>(element) << " op " << static_cast<int>(op) << " ranks " << ranks;
}

TEST(Pattern, EveryReductionIsExactInEightBitsToo) {
  for (const int ranks : {1, 2, 3, 7, 31, 64, 120, 1000}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg}) {
      if (op == ReduceOp::avg && ranks > 120) continue;
      expect_reduction_is_known<int8_t>(Element::i8, op, ranks);
      expect_reduction_is_known<float>(Element::f32, op, ranks);
    }
  }
  EXPECT_ERROR(Pattern(ReduceOp::avg, 121, 0), ErrorKind::usage, "can be verified on at most 120 ranks");
}

TEST(Pattern, OneWrongBitOfAnyTypeIsSeen) {
  for (const Element element : kElements) {
    const Pattern pattern(ReduceOp::sum, 3, 1);
    std::vector<char> data(static_cast<size_t>(kCount) * size_of(element));
    pattern.fill(element, data.data(), 0, kCount, 2);
    ASSERT_EQ(pattern.count_wrong(element, data.data(), 0, kCount, 2), 0);
    data[1234 * size_of(element) + size_of(element) - 1] ^= 1;
    EXPECT_EQ(pattern.count_wrong(element, data.data(), 0, kCount, 2), 1) << static_cast<int>(element);
  }
}

TEST(Pattern, DataOfAnotherRankPlaceOrTurnIsWrong) {
  const Pattern pattern(ReduceOp::max, 4, 1), later(ReduceOp::max, 4, 2);
  std::vector<float> data(kCount);
  pattern.fill(Element::f32, data.data(), 0, kCount, 2);
  EXPECT_GT(pattern.count_wrong(Element::f32, data.data(), 0, kCount, 1), kCount * 9 / 10);
  EXPECT_GT(pattern.count_wrong(Element::f32, data.data(), 1024, kCount, 2), kCount * 9 / 10);
  EXPECT_GT(later.count_wrong(Element::f32, data.data(), 0, kCount, 2), kCount * 9 / 10);
  data[0] = std::nanf("");
  EXPECT_EQ(pattern.count_wrong(Element::f32, data.data(), 0, kCount, 2), 1);
}

TEST(Half, RoundsToNearestEvenAndWidensExactly) {
  EXPECT_EQ(to_half(1).bits, 0x3C00);
  EXPECT_EQ(to_half(-2.5F).bits, 0xC100);
  EXPECT_EQ(to_half(65504).bits, 0x7BFF);
  EXPECT_EQ(to_half(65520).bits, 0x7C00);
  EXPECT_EQ(to_half(65519).bits, 0x7BFF);
  EXPECT_EQ(to_half(2049).bits, to_half(2048).bits) << "a tie goes to even";
  EXPECT_EQ(to_half(2051).bits, to_half(2052).bits);
  EXPECT_EQ(to_half(5.9604645e-8F).bits, 1) << "the smallest subnormal";
  EXPECT_EQ(to_half(1e-9F).bits, 0);
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const half_t x{static_cast<uint16_t>(bits)};
    const bool is_nan = (bits & 0x7FFF) > 0x7C00;
    EXPECT_TRUE(is_nan ? to_float(x) != to_float(x) : to_half(to_float(x)).bits == x.bits) << bits;
  }
}

}  // namespace
}  // namespace trireme::comm_bench
