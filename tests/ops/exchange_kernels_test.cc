#include "ops/cpu/exchange_kernels.h"

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

TEST(ExchangeKernels, SumInTheOrderOfTheTermsAndRoundWhatTravelsInBf16) {
  for (const size_t n : {0ul, 1ul, 7ul, 64ul, 1001ul}) {
    for (const size_t own_place : {0ul, 1ul, 2ul}) {
      std::vector<std::vector<float>> x(3, std::vector<float>(n));
      std::vector<std::vector<bf16_t>> narrow(3, std::vector<bf16_t>(n));
      for (size_t r = 0; r < 3; ++r) {
        for (size_t i = 0; i < n; ++i) {
          x[r][i] = (r == 1 ? 1e4F : 1.0F) / static_cast<float>(i + 3 + r);  // another order gives other bits
          narrow[r][i] = to_bf16(x[r][i]);
        }
      }
      std::vector<const float*> terms = {x[0].data(), x[1].data(), x[2].data()};
      std::vector<const bf16_t*> narrow_terms = {narrow[0].data(), narrow[1].data(), narrow[2].data()};
      terms[own_place] = nullptr;
      narrow_terms[own_place] = nullptr;
      std::vector<float> own = x[own_place], narrow_own = own, sum(n), expected(n), expected_narrow(n);
      std::vector<bf16_t> narrow_sum(n);
      for (size_t i = 0; i < n; ++i) {
        expected[i] = x[0][i] + x[1][i] + x[2][i];
        const float total = to_float(narrow[0][i]) + to_float(narrow[1][i]) + to_float(narrow[2][i]);
        expected_narrow[i] = to_float(to_bf16(total));
      }
      exchange_kernels::sum(terms, own.data(), sum.data(), static_cast<int64_t>(n));
      exchange_kernels::sum(narrow_terms, narrow_own.data(), narrow_sum.data(), static_cast<int64_t>(n));
      EXPECT_EQ(own, expected);
      EXPECT_EQ(sum, expected);
      EXPECT_EQ(narrow_own, expected_narrow);
      for (size_t i = 0; i < n; ++i) ASSERT_EQ(to_float(narrow_sum[i]), expected_narrow[i]) << i;
    }
  }
}

}  // namespace
}  // namespace trireme
