#include "plan/layout_choices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace trireme {
namespace {

ModelSize small() { return {.layers = 4, .width = 64, .heads = 4, .sequence = 32, .vocabulary = 100, .kv_heads = 2}; }

TEST(PossibleLayouts, AreThoseThatDivideRanksModelAndBatch) {
  const std::vector<StepLayout> layouts = possible_layouts(small(), 8, 16);
  std::set<std::tuple<int64_t, int64_t, int64_t>> meshes;
  for (const StepLayout& one : layouts) {
    EXPECT_EQ(one.ranks(), 8);
    EXPECT_EQ(one.micro_batches() * one.micro_batch * one.data, 16);
    EXPECT_LE(one.tensor, 2) << "2 heads of keys";
    EXPECT_LE(one.pipeline * one.chunks, 4) << "4 layers";
    EXPECT_TRUE(one.chunks == 1 || one.micro_batches() % one.pipeline == 0);
    EXPECT_TRUE(one.pipeline == 1 || one.shard == ShardChoice::none || one.shard == ShardChoice::optimizer);
    EXPECT_TRUE(one.tensor > 1 || !one.sequence_parallel);
    EXPECT_TRUE(one.data > 1 || one.shard == ShardChoice::none);
    meshes.insert({one.data, one.tensor, one.pipeline});
  }
  const std::set<std::tuple<int64_t, int64_t, int64_t>> expected{{8, 1, 1}, {4, 1, 2}, {2, 1, 4},
                                                                 {4, 2, 1}, {2, 2, 2}, {1, 2, 4}};
  EXPECT_EQ(meshes, expected);
}

TEST(PossibleLayouts, OfOneRankAreItsMicroBatchesAndRecomputations) {
  EXPECT_EQ(possible_layouts(small(), 1, 4).size(), 3 * 3);
  EXPECT_TRUE(possible_layouts(small(), 5, 4).empty()) << "5 ranks divide neither heads, layers nor batch";
}

TEST(LeastMemory, IsDividedAmongWhatSharesIt) {
  ModelSize model = small();
  model.vocabulary = 0;
  StepLayout layout;
  layout.global_batch = 16;
  const double weights = model.layer_parameters() * 4;
  EXPECT_DOUBLE_EQ(least_memory(model, layout, 4), 16 * weights);
  EXPECT_DOUBLE_EQ(least_memory(model, layout, 2), 18 * weights);
  layout.data = 4;
  layout.shard = ShardChoice::optimizer;
  EXPECT_DOUBLE_EQ(least_memory(model, layout, 4), 10 * weights);
  layout.shard = ShardChoice::gradients;
  EXPECT_DOUBLE_EQ(least_memory(model, layout, 4), 7 * weights);
  layout.shard = ShardChoice::parameters;
  EXPECT_DOUBLE_EQ(least_memory(model, layout, 4), 4 * weights);
  layout.tensor = layout.pipeline = 2;
  EXPECT_DOUBLE_EQ(least_memory(model, layout, 4), weights);
  EXPECT_GT(rough_memory(model, layout, 4), weights);
}

TEST(DifferenceText, NamesTheLargestCausesFirst) {
  PlannedTime faster, slower;
  faster.products = slower.products = 1;
  slower.exchange = 0.05;
  slower.bubble = 0.2;
  slower.update = 1e-4;
  EXPECT_EQ(difference_text(faster, slower), "bubble +0.200 s, exchange +0.050 s");
  EXPECT_EQ(difference_text(slower, faster), "");
  EXPECT_EQ(causes_text(slower, 0.1), "products 1.000 s, bubble 0.200 s");
}

}  // namespace
}  // namespace trireme
