#include "optim/exchange_kernels.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace trireme {
namespace {

std::vector<float> all_patterns(uint32_t low) {
  std::vector<float> values(0x10000 + 5);  // not a multiple of any vector
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t bits = static_cast<uint32_t>(i) << 16 | low;
    std::memcpy(&values[i], &bits, sizeof bits);
  }
  return values;
}

TEST(ExchangeKernels, RoundAsTheScalarDefinitionDoesForEveryHighHalf) {
  for (const uint32_t low : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
    const auto x = all_patterns(low);
    std::vector<bf16_t> y(x.size());
    exchange_kernels::round(x.data(), y.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i].bits, to_bf16(x[i]).bits) << std::hex << i << " " << low;
  }
}

TEST(ExchangeKernels, WidenIsExact) {
  std::vector<bf16_t> x(0x10000 + 5);
  for (size_t i = 0; i < x.size(); ++i) x[i].bits = static_cast<uint16_t>(i);
  std::vector<float> y(x.size());
  exchange_kernels::widen(x.data(), y.data(), static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    const float expected = to_float(x[i]);
    ASSERT_EQ(std::memcmp(&y[i], &expected, sizeof(float)), 0) << std::hex << i;
  }
}

TEST(ExchangeKernels, AddOneRoundedSumPerElement) {
  for (const size_t n : {0ul, 1ul, 7ul, 64ul, 1001ul}) {
    std::vector<float> x(n), y(n), z(n), expected(n), expected_bf16(n);
    std::vector<bf16_t> narrow(n);
    for (size_t i = 0; i < n; ++i) {
      x[i] = 1.0f / static_cast<float>(i + 3);
      narrow[i] = to_bf16(x[i]);
      y[i] = z[i] = static_cast<float>(i) * 0.1f;
      expected[i] = y[i] + x[i];
      expected_bf16[i] = z[i] + to_float(narrow[i]);
    }
    exchange_kernels::add(x.data(), y.data(), static_cast<int64_t>(n));
    exchange_kernels::add(narrow.data(), z.data(), static_cast<int64_t>(n));
    EXPECT_EQ(y, expected);
    EXPECT_EQ(z, expected_bf16);
  }
}

}  // namespace
}  // namespace trireme
