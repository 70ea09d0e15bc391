#include "tensor/f16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trireme {
namespace {

float number(uint32_t bits) { return to_float(f16_t{static_cast<uint16_t>(bits)}); }

TEST(F16, WidensToItsValue) {
  EXPECT_EQ(number(0x3C00), 1);
  EXPECT_EQ(number(0xC000), -2);
  EXPECT_EQ(number(0x3555), 0x1.554p-2f);
  EXPECT_EQ(number(0x7BFF), 65504);
  EXPECT_EQ(number(0x0400), 0x1p-14f);
  EXPECT_EQ(number(0x0001), 0x1p-24f);
  EXPECT_EQ(number(0x03FF), 1023 * 0x1p-24f);
  EXPECT_EQ(number(0x7C00), INFINITY);
  EXPECT_TRUE(std::isnan(number(0x7E01)));
  EXPECT_TRUE(std::signbit(number(0x8000)));
}

TEST(F16, EveryValueSurvivesAWideningAndMidpointsGoToTheEvenNeighbour) {
  for (uint32_t bits = 0; bits < 0x7C00; ++bits) {
    ASSERT_EQ(to_f16(number(bits)).bits, bits);
    ASSERT_EQ(to_f16(-number(bits)).bits, bits | 0x8000);
    const float above = bits == 0x7BFF ? 65536 : number(bits + 1), middle = (number(bits) + above) / 2;
    ASSERT_EQ(to_f16(middle).bits, bits + bits % 2) << std::hex << bits;
    ASSERT_EQ(to_f16(std::nextafter(middle, 0.0f)).bits, bits);
    ASSERT_EQ(to_f16(std::nextafter(middle, INFINITY)).bits, bits + 1);
  }
}

TEST(F16, WhatIsTooLargeIsInfinityAndNanStays) {
  EXPECT_EQ(to_f16(65520).bits, 0x7C00);
  EXPECT_EQ(to_f16(-1e30f).bits, 0xFC00);
  EXPECT_EQ(to_f16(-INFINITY).bits, 0xFC00);
  EXPECT_EQ(to_f16(1e-30f).bits, 0);
  EXPECT_EQ(to_f16(-std::numeric_limits<float>::denorm_min()).bits, 0x8000);
  EXPECT_TRUE(std::isnan(to_float(to_f16(NAN))));
  for (uint32_t bits = 0x7E00; bits < 0x8000; ++bits) ASSERT_EQ(to_f16(number(bits)).bits, bits);
}

}  // namespace
}  // namespace trireme
