#include "generate/generator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "base/error.h"

namespace trireme {
namespace {

std::map<TokenId, double> frequencies(std::span<const float> logits, const SamplingOptions& options) {
  constexpr int kDraws = 20000;
  std::map<TokenId, double> out;
  std::vector<uint32_t> order;
  for (int i = 0; i < kDraws; ++i) out[choose_token(logits, options, (i + 0.5) / kDraws, order)] += 1.0 / kDraws;
  return out;
}

TEST(ChooseToken, GreedyTakesTheLargestAndTheLowestIdAmongEquals) {
  const std::vector<float> logits = {1, 3, 2, 3};
  std::vector<uint32_t> order;
  EXPECT_EQ(choose_token(logits, {.greedy = true}, 0.99, order), 1u);
}

TEST(ChooseToken, ATemperatureOfZeroIsGreedy) {
  const std::vector<float> logits = {1, 3, 2, 3};
  std::vector<uint32_t> order;
  EXPECT_EQ(choose_token(logits, {.temperature = 0, .top_k = 3, .top_p = 0.5}, 0.99, order), 1u);
}

TEST(ChooseToken, DrawsWithSoftmaxProbabilities) {
  const std::vector<float> logits = {0, 1, 2};
  const double total = 1 + std::exp(1) + std::exp(2);
  auto f = frequencies(logits, {});
  for (TokenId id = 0; id < 3; ++id) EXPECT_NEAR(f[id], std::exp(logits[id]) / total, 1e-3) << id;
}

TEST(ChooseToken, DividesLogitsByTheTemperature) {
  const std::vector<float> logits = {0, 1};
  auto f = frequencies(logits, {.temperature = 0.5});
  EXPECT_NEAR(f[1], std::exp(2) / (1 + std::exp(2)), 1e-3);
}

TEST(ChooseToken, TopKKeepsTiesWithTheKthValue) {
  const std::vector<float> logits = {5, 1, 3, 3, 0};
  const auto f = frequencies(logits, {.top_k = 2});
  EXPECT_EQ(f.size(), 3u);
  EXPECT_TRUE(f.contains(0) && f.contains(2) && f.contains(3));
}

TEST(ChooseToken, TopPKeepsTheTokenThatPassesTheTotal) {
  // Probabilities 0.5, 0.3, 0.2.
  const std::vector<float> logits = {std::log(0.3f), std::log(0.5f), std::log(0.2f)};
  EXPECT_EQ(frequencies(logits, {.top_p = 0.4}).size(), 1u);
  const auto f = frequencies(logits, {.top_p = 0.6});
  EXPECT_EQ(f.size(), 2u);
  EXPECT_NEAR(f.at(1), 0.5 / 0.8, 1e-3);
}

TEST(ChooseToken, MinPDropsWhatIsFarBelowTheMostProbable) {
  // Probabilities 0.5, 0.3, 0.2.
  const std::vector<float> logits = {std::log(0.3f), std::log(0.5f), std::log(0.2f)};
  EXPECT_EQ(frequencies(logits, {.min_p = 0.3}).size(), 3u);
  const auto f = frequencies(logits, {.min_p = 0.5});
  EXPECT_EQ(f.size(), 2u);
  EXPECT_NEAR(f.at(1), 0.5 / 0.8, 1e-3);
  EXPECT_EQ(frequencies(logits, {.min_p = 1}).size(), 1u);
  EXPECT_ERROR(SamplingOptions{.min_p = 1.5}.validate(), ErrorKind::usage,
               "--min-p is 1.5, expected a number from 0 to 1");
}

TEST(ChooseToken, TheLastRandomNumberStillGivesAToken) {
  const std::vector<float> logits(1000, 0.1f);
  std::vector<uint32_t> order;
  EXPECT_LT(choose_token(logits, {}, std::nextafter(1.0, 0.0), order), 1000u);
}

TEST(ChooseToken, NeverTakesALogitOfMinusInfinity) {
  const float never = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {never, 1, never, 0, never};
  std::vector<uint32_t> order;
  for (const SamplingOptions& options :
       {SamplingOptions{.greedy = true}, SamplingOptions{}, SamplingOptions{.top_k = 4},
        SamplingOptions{.top_p = 0.9999}, SamplingOptions{.temperature = 1e-30},
        SamplingOptions{.temperature = 1e30, .top_k = 3, .top_p = 0.99}}) {
    for (const double uniform : {0.0, 0.5, std::nextafter(1.0, 0.0)}) {
      const TokenId id = choose_token(logits, options, uniform, order);
      EXPECT_TRUE(id == 1 || id == 3) << id << " at " << uniform;
    }
  }
}

std::string message_of(const SamplingOptions& options) {
  try {
    options.validate();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(SamplingOptions, RefuseValuesOutOfRangeByName) {
  EXPECT_EQ(message_of({.temperature = -1}),
            "--temperature is -1, expected a number above 0, or 0 for the most probable token");
  EXPECT_EQ(message_of({.temperature = 0}), "");
  EXPECT_EQ(message_of({.top_k = -1}), "--top-k is -1, expected at least 1, or 0 for all tokens");
  EXPECT_EQ(message_of({.top_p = 1.5}), "--top-p is 1.5, expected a number above 0 and at most 1");
  EXPECT_EQ(message_of({}), "");
}

}  // namespace
}  // namespace trireme
