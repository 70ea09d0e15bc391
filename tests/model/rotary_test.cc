#include "model/rotary.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"

namespace trireme {
namespace {

void expect_near(float got, double want) { EXPECT_NEAR(static_cast<double>(got), want, 2e-7 * std::abs(want)); }

TEST(RotaryFrequencies, FallFromOneByTheBase) {
  const auto w = rotary_frequencies(10000, 8, {}, 2048);
  ASSERT_EQ(w.size(), 4u);
  for (size_t i = 0; i < 4; ++i) expect_near(w[i], std::pow(10.0, -static_cast<double>(i)));
}

TEST(RotaryFrequencies, LinearDividesThemAll) {
  const auto w = rotary_frequencies(10000, 8, {.kind = RotaryKind::linear, .factor = 8}, 2048);
  for (size_t i = 0; i < 4; ++i) expect_near(w[i], std::pow(10.0, -static_cast<double>(i)) / 8);
}

TEST(RotaryFrequencies, DynamicRaisesTheBaseOfContextsAboveTheOriginal) {
  const RotaryScaling scaling{.kind = RotaryKind::dynamic, .factor = 2, .original_context = 100};
  EXPECT_EQ(rotary_frequencies(10000, 8, scaling, 100), rotary_frequencies(10000, 8, {}, 100));
  EXPECT_EQ(rotary_frequencies(10000, 8, scaling, 60), rotary_frequencies(10000, 8, {}, 60));
  const double base = 10000 * std::pow(2.0 * 300 / 100 - 1, 8.0 / 6);
  const auto w = rotary_frequencies(10000, 8, scaling, 300);
  for (size_t i = 0; i < 4; ++i) expect_near(w[i], std::pow(base, -static_cast<double>(i) / 4));
}

TEST(RotaryFrequencies, AreThoseOfLlama3) {
  const auto w = rotary_frequencies(
      5e5, 64, {.kind = RotaryKind::llama3, .factor = 32, .original_context = 8192, .low = 1, .high = 4}, 131072);
  ASSERT_EQ(w.size(), 32u);
  expect_near(w[0], 1);
  // Of Llama-3.2-1B in transformers 5, to its nine digits.
  for (const auto& [i, want] : {std::pair<size_t, double>{12, 0.00729266474},
                                {13, 0.00483942135},
                                {14, 0.00321144599},
                                {15, 0.00129054793},
                                {16, 0.000429556797},
                                {17, 9.7082878e-05},
                                {31, 9.41830673e-08}})
    EXPECT_NEAR(static_cast<double>(w[i]), want, 3e-7 * want) << i;
}

TEST(RotaryFrequencies, AreThoseOfYarn) {
  const RotaryScaling scaling{.kind = RotaryKind::yarn, .factor = 4, .original_context = 32768};
  const auto w = rotary_frequencies(1e6, 128, scaling, 131072);
  for (const auto& [i, want] :
       {std::pair<size_t, double>{23, 0.00697830585}, {24, 0.00537532149}, {40, 4.44569853e-05}})
    EXPECT_NEAR(static_cast<double>(w[i]), want, 3e-7 * want) << i;
  const auto plain = rotary_frequencies(1e6, 128, {}, 131072);
  EXPECT_EQ(w[22], plain[22]);
  expect_near(w[41], static_cast<double>(plain[41]) / 4);
  EXPECT_NEAR(default_attention_factor(RotaryKind::yarn, 4, 32768), 1.138629436, 1e-9);
  RotaryScaling exact = scaling;
  exact.truncate = false;
  EXPECT_NE(rotary_frequencies(1e6, 128, exact, 131072), w);
}

TEST(RotaryFrequencies, OfLongropeDependOnTheContext) {
  const RotaryScaling scaling{.kind = RotaryKind::longrope,
                              .factor = 32,
                              .original_context = 4096,
                              .short_factors = {1, 1.5f},
                              .long_factors = {2, 40}};
  const auto shorter = rotary_frequencies(10000, 4, scaling, 4096),
             longer = rotary_frequencies(10000, 4, scaling, 4097);
  expect_near(shorter[0], 1);
  expect_near(shorter[1], 0.01 / 1.5);
  expect_near(longer[0], 0.5);
  expect_near(longer[1], 0.01 / 40);
  EXPECT_EQ(rotary_length(scaling, 4096), rotary_length(scaling, 1));
  EXPECT_EQ(rotary_length(scaling, 4097), rotary_length(scaling, 100000));
  EXPECT_NE(rotary_length(scaling, 4097), rotary_length(scaling, 4096));
  EXPECT_NEAR(default_attention_factor(RotaryKind::longrope, 32, 4096), 1.190238071, 1e-9);
  EXPECT_EQ(default_attention_factor(RotaryKind::longrope, 1, 4096), 1);
  EXPECT_EQ(default_attention_factor(RotaryKind::llama3, 8, 8192), 1);
}

TEST(RotaryFrequencies, ScalingsWithoutAMeaningAreErrors) {
  const auto check = [](const RotaryScaling& scaling, const char* text) {
    EXPECT_ERROR(scaling.validate(4), ErrorKind::config, text);
  };
  check({.kind = RotaryKind::linear, .factor = 0.5f}, "rotary factor is 0.5; it must be at least 1");
  check({.attention_factor = 0}, "rotary attention factor is 0; it must be above 0");
  check({.kind = RotaryKind::yarn, .factor = 4}, "rotary positions of kind yarn need the original context; it is 0");
  check({.kind = RotaryKind::llama3, .original_context = 8, .low = 4, .high = 4},
        "rotary low and high are 4 and 4, expected 0 < low < high");
  check({.kind = RotaryKind::yarn, .original_context = 8, .beta_fast = 1, .beta_slow = 2},
        "rotary beta-fast and beta-slow are 1 and 2, expected 0 < beta-slow <= beta-fast");
  check({.kind = RotaryKind::longrope, .original_context = 8, .short_factors = {1, 1}},
        "0 long rotary factors, expected 2, one per pair of rotary dims");
  check({.kind = RotaryKind::longrope, .original_context = 8, .short_factors = {1, -1}, .long_factors = {1, 1}},
        "a short rotary factor is -1; it must be above 0");
  check({.short_factors = {1, 1}}, "2 short rotary factors, expected 0");
  EXPECT_ERROR((RotaryScaling{.kind = RotaryKind::dynamic, .original_context = 8}.validate(2)), ErrorKind::config,
               "rotary dims is 2, dynamic frequencies need at least 4");
}

}  // namespace
}  // namespace trireme
