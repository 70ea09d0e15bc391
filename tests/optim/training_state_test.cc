#include "optim/training_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "tensor/f16.h"
#include "tests/support/cut_states.h"
#include "tests/support/tiny_model.h"

namespace trireme {
namespace {

std::vector<float> master(const TrainingState& state, const Parameter& parameter) {
  std::vector<float> values(static_cast<size_t>(parameter.stored_shape.count()));
  state.read_master(parameter, values);
  return values;
}

uint32_t bits_of(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  return bits;
}

float from_bits(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

TEST(TrainingState, HasFlatArraysOverTheTable) {
  const ParameterTable table(tiny_spec());
  const TrainingState state(table, DType::bf16, true);
  EXPECT_EQ(state.weights().count(), table.flat_count());
  EXPECT_EQ(state.remainder().count(), table.flat_count());
  EXPECT_EQ(state.gradients().count(), table.gradient_count());
  EXPECT_EQ(state.gradients().dtype(), DType::f32);
  EXPECT_EQ(state.state(kAdamM).count(), table.flat_count());
  const size_t expected =
      static_cast<size_t>(table.flat_count()) * (2 + 2 + 4 + 4) + static_cast<size_t>(table.gradient_count()) * 4;
  EXPECT_GE(state.bytes(), expected);
  EXPECT_LE(state.bytes(), expected + 5 * 64);
}

TEST(TrainingState, WithoutMomentsHoldsWeightsOnly) {
  const ParameterTable table(tiny_spec());
  const TrainingState state(table, DType::f32, false);
  EXPECT_TRUE(state.remainder().empty());
  EXPECT_TRUE(state.gradients().empty());
  EXPECT_TRUE(state.state(kAdamM).empty());
  EXPECT_EQ(state.bytes(), static_cast<size_t>(table.flat_count()) * 4);
}

TEST(TrainingState, RefusesIntegerWeights) {
  const ParameterTable table(tiny_spec());
  try {
    const TrainingState state(table, DType::i32, true);
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "weights cannot be i32; use f32, bf16 or f16");
  }
}

TEST(TrainingState, SplitMastersAreExactAtEveryRemainder) {
  const ParameterTable table(tiny_spec());
  TrainingState state(table, DType::bf16, false);
  const Parameter& parameter = table.find("embedding.token.weight");
  const auto n = static_cast<size_t>(parameter.stored_shape.count());
  // Every value of the low half, including ties, with a few high halves: signs, a carry into the exponent, infinities.
  for (const uint32_t high : {0x0000u, 0x3F80u, 0x3FFFu, 0xBFFFu, 0x7F7Fu, 0x7F80u, 0xFF80u}) {
    for (uint32_t low = 0; low < 0x10000; low += static_cast<uint32_t>(n)) {
      std::vector<float> values(n);
      for (size_t i = 0; i < n; ++i) values[i] = from_bits(high << 16 | ((low + static_cast<uint32_t>(i)) & 0xFFFF));
      state.write_master(parameter, values);
      const auto read = master(state, parameter);
      ASSERT_EQ(std::memcmp(read.data(), values.data(), n * sizeof(float)), 0) << std::hex << high << " " << low;
      const auto weights = view_of(state.weights(), parameter).values<bf16_t>();
      for (size_t i = 0; i < n; ++i) ASSERT_EQ(weights[i].bits, (bits_of(values[i]) + 0x8000) >> 16);
    }
  }
}

TEST(TrainingState, F16WeightsHaveTheirMastersBeside) {
  const ParameterTable table(tiny_spec());
  const TrainingState with_moments(table, DType::f16, true);
  const size_t expected =
      static_cast<size_t>(table.flat_count()) * (2 + 4 + 4 + 4) + static_cast<size_t>(table.gradient_count()) * 4;
  EXPECT_GE(with_moments.bytes(), expected);
  EXPECT_LE(with_moments.bytes(), expected + 5 * 64);
  EXPECT_EQ(with_moments.bytes(), TrainingState::bytes_for(table, DType::f16, true));

  TrainingState state(table, DType::f16, false);
  const Parameter& parameter = table.find("embedding.token.weight");
  std::vector<float> values(static_cast<size_t>(parameter.stored_shape.count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i)) * 1.0000001f;
  values[0] = 1e-9f, values[1] = 70000;  // beyond what f16 holds
  state.write_master(parameter, values);
  EXPECT_EQ(master(state, parameter), values);
  const auto weights = view_of(state.weights(), parameter).values<f16_t>();
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(weights[i].bits, to_f16(values[i]).bits) << values[i];
}

TEST(TrainingState, WritingAParameterZeroesItsPaddingRowsAndNothingElse) {
  const ParameterTable table(tiny_spec());
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    TrainingState state(table, dtype, false);
    std::memset(state.weights().data(), 0x11, state.weights().bytes());
    const Parameter& parameter = table.find("embedding.token.weight");
    state.write_master(parameter, std::vector<float>(13 * 16, 1.5f));
    const auto* bytes = static_cast<const unsigned char*>(state.weights().data());
    const size_t width = size_of(dtype), first = static_cast<size_t>(parameter.offset) * width;
    for (size_t i = first + 13 * 16 * width; i < first + 16 * 16 * width; ++i) ASSERT_EQ(bytes[i], 0);
    ASSERT_EQ(bytes[first + 16 * 16 * width], 0x11);
    EXPECT_EQ(master(state, parameter), std::vector<float>(13 * 16, 1.5f));
  }
}

TEST(TrainingState, AWrongNumberOfValuesIsNamed) {
  const ParameterTable table(tiny_spec());
  TrainingState state(table, DType::f32, false);
  try {
    state.write_master(table.find("norm.weight"), std::vector<float>(3));
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::shape);
    EXPECT_STREQ(e.what(), "write_master of norm.weight: got 3 values, expected [16] = 16");
  }
}

TEST(Initialize, FollowsEachParametersInit) {
  const ParameterTable table(tiny_spec());
  TrainingState state(table, DType::f32, true);
  initialize(state, table, 7);
  for (const Parameter& parameter : table.all()) {
    const auto values = master(state, parameter);
    const double n = static_cast<double>(values.size());
    if (parameter.init == Init::zeros) {
      EXPECT_EQ(values, std::vector<float>(values.size(), 0.0f));
    } else if (parameter.init == Init::ones) {
      EXPECT_EQ(values, std::vector<float>(values.size(), 1.0f));
    } else {
      double squares = 0;
      for (const float v : values) squares += static_cast<double>(v) * static_cast<double>(v);
      const double deviation = std::sqrt(squares / n) / static_cast<double>(parameter.init_std);
      EXPECT_NEAR(deviation, 1.0, 5 / std::sqrt(2 * n)) << parameter.name;
    }
  }
}

TEST(Initialize, DependsOnSeedAndNameButNotOnPaddingOrDtype) {
  Spec padded = tiny_spec();
  padded.vocabulary_rows = 64;
  const ParameterTable table(tiny_spec()), padded_table(padded);
  TrainingState a(table, DType::f32, false), b(padded_table, DType::bf16, false), c(table, DType::f32, false);
  initialize(a, table, 7);
  initialize(b, padded_table, 7);
  initialize(c, table, 8);
  for (size_t i = 0; i < table.all().size(); ++i) {
    const Parameter& parameter = table.all()[i];
    EXPECT_EQ(master(a, parameter), master(b, padded_table.all()[i])) << parameter.name;
    if (parameter.init == Init::normal) {
      EXPECT_NE(master(a, parameter), master(c, parameter)) << parameter.name;
    }
  }
  EXPECT_NE(master(a, table.find("block.0.attention.out.weight")),
            master(a, table.find("block.1.attention.out.weight")));
}

/// Heads, MLP columns and rows of the token matrix are divisible by up to eight; the last rows are padding.
Spec divisible_spec(bool tied) {
  Spec spec = tiny_spec(tied);
  spec.heads = 8;
  spec.width = 32;
  return spec;
}

TEST(Initialize, EveryLayoutStartsWithTheBitsOfOneProcess) {
  for (const bool tied : {true, false}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Spec spec = divisible_spec(tied);
      const ParameterTable whole(spec);
      TrainingState expected(whole, dtype, false);
      initialize(expected, whole, 7);
      for (const int tensor : {2, 4, 8}) {
        for (const int pipeline : {1, 2}) {
          TrainingState assembled(whole, dtype, false);
          for (const Layout& layout : layouts_of(spec, tensor, pipeline)) {
            const ParameterTable table(spec, InitScheme::gpt2, layout);
            TrainingState own(table, dtype, false);
            std::memset(own.weights().data(), 0x11, own.weights().bytes());
            initialize(own, table, 7);
            for (const Parameter& p : table.all()) {  // also replicas: each equals the box of the complete one
              TrainingState cut(table, dtype, false);
              copy_common(whole, expected, table, cut);
              ASSERT_EQ(master(own, p), master(cut, p)) << p.name;
            }
            copy_common(table, own, whole, assembled);
          }
          ASSERT_EQ(std::memcmp(assembled.weights().data(), expected.weights().data(), expected.weights().bytes()), 0)
              << "tensor " << tensor << ", pipeline " << pipeline;
          if (dtype == DType::bf16) {
            ASSERT_EQ(
                std::memcmp(assembled.remainder().data(), expected.remainder().data(), expected.remainder().bytes()),
                0);
          }
        }
      }
    }
  }
}

TEST(Initialize, ATensorRankHasTheQueriesKeysAndValuesOfItsHeads) {
  const Spec spec = divisible_spec(true);
  const ParameterTable whole(spec), half(spec, InitScheme::gpt2, {{}, 1, 2});
  TrainingState all(whole, DType::f32, false), own(half, DType::f32, false);
  initialize(all, whole, 7);
  initialize(own, half, 7);
  const char* name = "block.1.attention.qkv.weight";
  const std::vector<float> want = master(all, whole.find(name)), got = master(own, half.find(name));
  const int64_t dim = spec.head_dim();  // [heads, 3, dim, width]
  for (int64_t head = 0; head < 4; ++head) {
    for (int64_t part = 0; part < 3; ++part) {
      for (int64_t i = 0; i < dim; ++i) {
        const int64_t there = ((head + 4) * 3 + part) * dim + i, here = (head * 3 + part) * dim + i;
        for (int64_t c = 0; c < spec.width; ++c)
          ASSERT_EQ(got[static_cast<size_t>(here * spec.width + c)], want[static_cast<size_t>(there * spec.width + c)]);
      }
    }
  }
  const std::vector<float> columns = master(own, half.find("block.1.mlp.out.weight")),
                           rows = master(all, whole.find("block.1.mlp.out.weight"));
  for (int64_t r = 0; r < spec.width; ++r) {
    for (int64_t c = 0; c < spec.inner_width / 2; ++c)
      ASSERT_EQ(columns[static_cast<size_t>(r * spec.inner_width / 2 + c)],
                rows[static_cast<size_t>(r * spec.inner_width + spec.inner_width / 2 + c)]);
  }
}

}  // namespace
}  // namespace trireme
