#include "ops/element_sum.h"

#include "ops/cpu/highway_targets.h"
// After the choice of targets.
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <set>
#include <vector>

namespace trireme {
namespace {

/// The definition of docs/checkpoint-format.md once more, with two 32-bit halves where the program has 64 bits.
uint64_t written_out(uint64_t key, uint64_t index, uint32_t bits) {
  const uint64_t place = key + index * 0x9E3779B97F4A7C15u, spread = uint64_t{bits} * 0x9E3779B1u;
  auto low = static_cast<uint32_t>(place) ^ static_cast<uint32_t>(spread);
  auto high = static_cast<uint32_t>(place >> 32) ^ static_cast<uint32_t>(spread >> 32);
  for (const uint32_t a : {0x85EBCA6Au, 0xC2B2AE34u, 0x27D4EB2Eu}) {
    const uint64_t product = uint64_t{low} * a;
    const uint32_t new_low = low ^ static_cast<uint32_t>(product);
    low = high ^ static_cast<uint32_t>(product >> 32);
    high = new_low;
  }
  return uint64_t{high} << 32 | low;
}

std::vector<float> some_values(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = 0.02f * static_cast<float>(static_cast<int>(i * 37 % 101) - 50);
  return values;
}

template <class F>
void for_each_target(F&& f) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    f();
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(ElementSum, IsWhatItsDefinitionSaysOnEveryInstructionSet) {
  for_each_target([] {
    for (const size_t count : {0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 33, 1000}) {
      const std::vector<float> values = some_values(count);
      uint64_t want = 0;
      for (size_t i = 0; i < count; ++i)
        want += written_out(0x123456789ABCDEF0, 5 + i, std::bit_cast<uint32_t>(values[i]));
      EXPECT_EQ(element_sum(0x123456789ABCDEF0, 5, values), want) << count;
    }
  });
}

TEST(ElementSum, HasTheValuesThatManifestsHold) {
  EXPECT_EQ(element_sum(0, 0, {}), 0);
  EXPECT_EQ(element_term(0, 0), 0);
  EXPECT_EQ(element_term(1, 0x3F800000), written_out(1, 0, 0x3F800000));
  EXPECT_EQ(element_term(1, 0x3F800000), 0x682C357CF08F1D4B);
  EXPECT_EQ(element_sum(0x123456789ABCDEF0, 5, some_values(1000)), 0x3BF0F6610013693F);
}

TEST(ElementSum, PartsAddUpInAnyOrder) {
  const std::vector<float> values = some_values(977);
  const uint64_t whole = element_sum(9, 100, values);
  for (const size_t cut : {1, 3, 64, 500, 976}) {
    const std::span<const float> all(values);
    EXPECT_EQ(element_sum(9, 100 + cut, all.subspan(cut)) + element_sum(9, 100, all.first(cut)), whole) << cut;
  }
}

TEST(ElementSum, SeesEveryBitEveryPlaceAndEveryKey) {
  const std::vector<float> values = some_values(300);
  const uint64_t whole = element_sum(9, 0, values);
  std::set<uint64_t> seen{whole};
  for (size_t i = 0; i < values.size(); ++i) {
    for (int bit = 0; bit < 32; ++bit) {
      std::vector<float> other = values;
      other[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(other[i]) ^ 1u << bit);
      EXPECT_TRUE(seen.insert(element_sum(9, 0, other)).second) << i << ", bit " << bit;
    }
  }
  for (size_t i = 0; i < values.size(); ++i)
    for (size_t k = i + 1; k < values.size(); ++k) {
      if (values[i] == values[k]) continue;
      std::vector<float> other = values;
      std::swap(other[i], other[k]);
      ASSERT_TRUE(seen.insert(element_sum(9, 0, other)).second) << i << " and " << k;
    }
  for (const uint64_t key : {uint64_t{8}, uint64_t{10}, uint64_t{9} << 32})
    EXPECT_TRUE(seen.insert(element_sum(key, 0, values)).second) << key;
  EXPECT_TRUE(seen.insert(element_sum(9, 1, values)).second) << "moved by one";
}

/// Half of the 64 bits change with a bit of the value, whichever it is, and with the next place.
TEST(ElementSum, EveryBitOfATermDependsOnEveryBitOfItsValueAndOnItsPlace) {
  constexpr int kTrials = 4000;
  constexpr double kSixSigma = 6 * 0.5 / 63.2;
  for (int bit = 0; bit <= 32; ++bit) {
    std::vector<int> changed(64);
    for (uint64_t trial = 0; trial < kTrials; ++trial) {
      const uint64_t place = 77 + trial * kElementStride;
      const auto bits = static_cast<uint32_t>(trial * 2654435761u >> 3);
      const uint64_t other =
          bit < 32 ? element_term(place, bits ^ 1u << bit) : element_term(place + kElementStride, bits);
      const uint64_t difference = element_term(place, bits) ^ other;
      for (size_t i = 0; i < 64; ++i) changed[i] += static_cast<int>(difference >> i & 1);
    }
    for (const int count : changed) EXPECT_NEAR(count / double{kTrials}, 0.5, kSixSigma) << "input bit " << bit;
  }
}

}  // namespace
}  // namespace trireme
