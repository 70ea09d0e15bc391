#include "optim/parameter_hash.h"

#include <gtest/gtest.h>

#include <bit>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "ops/element_sum.h"
#include "optim/optimizer.h"
#include "tests/support/cut_states.h"
#include "tests/support/layouts.h"
#include "tests/support/tiny_model.h"

namespace trireme {
namespace {

std::vector<float> master(const TrainingState& state, const Parameter& parameter) {
  std::vector<float> values(static_cast<size_t>(parameter.stored_shape.count()));
  state.read_master(parameter, values);
  return values;
}

/// The definition, element by element.
uint64_t written_out(const TrainingState& state, const ParameterTable& table) {
  uint64_t sum = 0;
  for (const Parameter& parameter : table.all()) {
    const uint64_t key = xxh3(std::as_bytes(std::span(parameter.name)));
    const std::vector<float> values = master(state, parameter);
    for (size_t i = 0; i < values.size(); ++i)
      sum += element_term(key + i * kElementStride, std::bit_cast<uint32_t>(values[i]));
  }
  return sum;
}

TEST(ParameterHash, IsTheSumOverAllElementsWhateverTheType) {
  for (const bool tied : {true, false}) {
    const ParameterTable table(tiny_spec(tied));
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      TrainingState state(table, dtype, true);
      initialize(state, table, 7);
      EXPECT_EQ(parameter_hash(state, table), written_out(state, table)) << name_of(dtype);
      EXPECT_EQ(hex64(parameter_hash(state, table)), tied ? "dbd616d78560465f" : "0c9559e77e9bde79") << name_of(dtype);
    }
  }
}

TEST(ParameterHash, SeesEveryBitOfWeightsAndRemainders) {
  const ParameterTable table(tiny_spec());
  TrainingState a(table, DType::bf16, true), b(table, DType::bf16, true);
  initialize(a, table, 7);
  initialize(b, table, 7);
  int16_t* const remainder = b.replicated()[1].as<int16_t>();
  const uint64_t hash = parameter_hash(a, table);
  EXPECT_EQ(parameter_hash(b, table), hash);
  for (const Parameter& parameter : table.all()) {
    const int64_t last = parameter.offset + parameter.stored_shape.count() - 1;
    b.weights().as<bf16_t>()[last].bits ^= 1;
    EXPECT_NE(parameter_hash(b, table), hash) << parameter.name;
    b.weights().as<bf16_t>()[last].bits ^= 1;
    remainder[last] ^= 1;
    EXPECT_NE(parameter_hash(b, table), hash) << parameter.name;
    remainder[last] ^= 1;
  }
  EXPECT_EQ(parameter_hash(b, table), hash);
}

TEST(ParameterHash, SeesElementsAndTensorsThatChangePlaces) {
  const ParameterTable table(tiny_spec());
  TrainingState state(table, DType::f32, false);
  initialize(state, table, 7);
  const uint64_t hash = parameter_hash(state, table);
  const Parameter &a = table.find("block.0.mlp.in.weight"), &b = table.find("block.1.mlp.in.weight");
  float *const of_a = state.weights().as<float>() + a.offset, *const of_b = state.weights().as<float>() + b.offset;
  for (const auto& [i, k] : {std::pair{0, 1}, {0, 16}, {5, 700}}) {
    std::swap(of_a[i], of_a[k]);
    EXPECT_NE(parameter_hash(state, table), hash) << i << " and " << k;
    std::swap(of_a[i], of_a[k]);
  }
  std::swap_ranges(of_a, of_a + a.count(), of_b);
  EXPECT_NE(parameter_hash(state, table), hash) << "two tensors of one shape";
  std::swap_ranges(of_a, of_a + a.count(), of_b);
  EXPECT_EQ(parameter_hash(state, table), hash);
}

TEST(ParameterHash, DoesNotDependOnPaddingRows) {
  Spec more = tiny_spec();
  more.vocabulary_rows = 32;
  std::vector<uint64_t> hashes;
  for (const Spec& spec : {tiny_spec(), more}) {
    const ParameterTable table(spec);
    TrainingState state(table, DType::bf16, false);
    initialize(state, table, 7);
    hashes.push_back(parameter_hash(state, table));
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

/// Each rank's hash without what an earlier one holds, too.
TEST(ParameterHash, OfTheBoxesThatRanksHoldAddsUpToThatOfTheModel) {
  for (const bool tied : {true, false}) {
    const ParameterTable whole(tiny_spec(tied));
    TrainingState all(whole, DType::f32, false);
    initialize(all, whole, 7);
    for (const auto& [tensor, pipeline] : {std::pair{2, 1}, {1, 2}, {2, 2}}) {
      uint64_t sum = 0;
      std::vector<std::pair<std::string, Box>> seen;
      for (const Layout& layout : layouts_of(tiny_spec(tied), tensor, pipeline)) {
        const ParameterTable table(tiny_spec(tied), InitScheme::gpt2, layout);
        TrainingState state(table, DType::f32, false);
        copy_common(whole, all, table, state);
        uint64_t own = 0;
        for (const Parameter& parameter : table.all()) {
          const uint64_t part = box_hash(parameter_key(parameter.name), parameter.global_shape, parameter.stored(),
                                         master(state, parameter));
          own += part;
          const std::pair box{parameter.name, parameter.stored()};
          if (std::ranges::find(seen, box) == seen.end()) sum += part;
          seen.push_back(box);
        }
        EXPECT_EQ(parameter_hash(state, table), own);
      }
      EXPECT_EQ(sum, parameter_hash(all, whole)) << tensor << " x " << pipeline;
    }
  }
}

TEST(ParameterHash, OfASharedOptimizerIsThatOfTheWeightsThatAllHave) {
  const ParameterTable table(tiny_spec());
  for (const DType dtype : {DType::f32, DType::bf16}) {
    std::vector<uint64_t> hashes;
    for (int rank = 0; rank < 3; ++rank) {
      OptimizerOptions options;
      options.shard = ShardChoice::optimizer;
      TrainingState state(table, dtype, true, kept_states(table, options, 3, rank));
      initialize(state, table, 7);
      hashes.push_back(parameter_hash(state, table));
    }
    EXPECT_EQ(hashes[0], hashes[1]) << name_of(dtype);
    EXPECT_EQ(hashes[0], hashes[2]) << name_of(dtype);
  }
}

}  // namespace
}  // namespace trireme
