// Plans of the published recipes on their GPUs, which nobody needs to have: docs/gpu.md has the tables.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "model/model_options.h"
#include "tests/support/paths.h"
#include "tests/support/test_data.h"
#include "train/start/rank_table.h"
#include "train/start/resolve.h"
#include "train/start/run_forecast.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

/// Files of GPT-NeoX, whose vocabulary is that of its tokenizer.
LoadedConfig neox(const std::string& file, std::vector<std::string> flags) {
  flags.insert(flags.end(), {"--model.vocabulary", "50277", "--run.device", "cuda"});
  LoadedConfig loaded = load_config({(test_data_dir() / "configs/neox" / file).string()}, flags, "gpt-neox");
  resolve_model_options(loaded);
  return loaded;
}

/// metaseq's size on two nodes of eight A100 with its tensor ranks, ZeRO-1 and recomputed layers, 50 steps as
/// --benchmark takes.
LoadedConfig opt(const std::string& size, int tensor) {
  LoadedConfig loaded =
      load_config({source_dir() + fmt::format("/configs/opt-{}.yaml", size)},
                  {"--run.device", "cuda", "--mesh.tensor", fmt::format("{}", tensor), "--optim.shard", "optimizer",
                   "--model.recompute", "full", "--batch.micro", "1", "--run.steps", "50", "--log.every", "5"});
  resolve_model_options(loaded);
  return loaded;
}

const PlannedNodes& two_nodes_of_a100() {
  static const PlannedNodes nodes{node_type("azure-nd96amsr-a100-v4"), 2, 8};
  return nodes;
}

double gigabytes(const RunForecast& forecast) { return forecast.memory() / 1e9; }

TEST(GpuRecipes, NeoxWith2BillionFitsTwoNodesOfFourA6000) {
  TRIREME_NEEDS_TEST_DATA("configs/neox/2-7B.yml");
  const PlannedNodes on{node_type("a6000-10gbe"), 2, 4};
  const RunForecast flat = forecast_run(neox("2-7B.yml", {"--comm.reduce", "flat"}), on);
  EXPECT_EQ(flat.layout.data, 8);
  EXPECT_EQ(flat.layout.shard, ShardChoice::optimizer);
  EXPECT_NEAR(gigabytes(flat), 25.76, 0.01);
  EXPECT_TRUE(flat.fits()) << "into 48 GB";
  EXPECT_NEAR(flat.time.products, 2.16, 0.01);
  EXPECT_NEAR(flat.time.exchange, 20.0, 0.1) << "every GPU's gradients leave the node";
  const RunForecast hosts = forecast_run(neox("2-7B.yml", {}), on);
  EXPECT_NEAR(gigabytes(hosts), 25.30, 0.01);
  EXPECT_NEAR(hosts.time.exchange, 7.8, 0.1) << "each node's sum leaves it";
}

TEST(GpuRecipes, NeoxWith20BillionFitsThreeNodesOfEightA100) {
  TRIREME_NEEDS_TEST_DATA("configs/neox/20B.yml");
  const PlannedNodes on{node_type("a100-40gb-ethernet"), 3, 8};
  LoadedConfig loaded = neox("20B.yml", {"--mesh.pipeline", "6", "--mesh.tensor", "4"});
  EXPECT_EQ(loaded.config.precision.dtype, DType::f16);
  const RunForecast forecast = forecast_run(loaded, on);
  EXPECT_NEAR(gigabytes(forecast), 22.49, 0.01) << "NeoX takes 27 GB of 40";
  EXPECT_TRUE(forecast.fits());
  EXPECT_NEAR(simulate_run(forecast, {}).seconds / 27.1, 1, 0.10) << "4.73 samples per second are published";
  resolve_for_ranks(loaded, 24);
  const std::string table = rank_table(loaded, 24, 3, PlannedDevices::gpus);
  EXPECT_THAT(table, HasSubstr("# 24 ranks: data 1 x tensor 4 x pipeline 6. Memory is that of a GPU for each rank, "
                               "without CUDA's own (less than 1 GB), and 8 ranks per host.\n"));
  EXPECT_THAT(table, HasSubstr("  embedding, layers 0 to 6 (1/4 of each)         22.49 GB "));
  EXPECT_THAT(table, HasSubstr("  layers 37 to 43, head (1/4 of each)            19.39 GB "));
  EXPECT_EQ(std::ranges::count(table, '\n'), 2 + 24);
}

TEST(GpuRecipes, OptUpTo13BillionFitsSixteenA100) {
  const struct {
    const char* size;
    int tensor;
    double gigabytes;
  } rungs[] = {{"125m", 2, 2.69}, {"350m", 2, 3.65},  {"760m", 2, 5.29}, {"1.3b", 2, 7.49},
               {"2.7b", 4, 7.67}, {"6.7b", 2, 27.70}, {"13b", 2, 50.72}, {"30b", 4, 67.50}};
  for (const auto& [size, tensor, expected] : rungs) {
    const RunForecast forecast = forecast_run(opt(size, tensor), two_nodes_of_a100());
    EXPECT_NEAR(gigabytes(forecast), expected, 0.01) << size;
    EXPECT_TRUE(forecast.fits()) << size;
    EXPECT_EQ(forecast.steps, 50);
  }
}

TEST(GpuRecipes, OptAboveGetsTheTensorSizeThatFits) {
  const RunForecast given = forecast_run(opt("30b", 2), two_nodes_of_a100());
  EXPECT_NEAR(gigabytes(given), 113.88, 0.01);
  // In bf16 with f32 gradients six bytes of each weight are not shared.
  EXPECT_NEAR(static_cast<double>(given.plan.table->total()) * 6 / 1e9, 90, 1);
  EXPECT_FALSE(given.fits());
  const std::vector<Remedy> remedies = remedies_for(opt("30b", 2), given);
  ASSERT_EQ(remedies.size(), 1);
  EXPECT_EQ(remedies[0].options, "--mesh.tensor 4");
  EXPECT_EQ(remedies[0].forecast.layout.data, 4);
  EXPECT_TRUE(remedies_for(opt("66b", 8), forecast_run(opt("66b", 8), two_nodes_of_a100())).empty());
  const auto best = best_layouts(opt("66b", 8), two_nodes_of_a100(), PlanGoal::time, 1);
  ASSERT_FALSE(best.empty());
  EXPECT_EQ(best[0].layout.tensor * best[0].layout.pipeline, 16) << "all 16 GPUs hold one replica";
  EXPECT_TRUE(best_layouts(opt("175b", 8), two_nodes_of_a100(), PlanGoal::time, 1).empty());
}

TEST(GpuRecipes, TheBestLayoutsDoNotShareWhatGpusCannot) {
  for (const RunForecast& one : best_layouts(opt("13b", 2), two_nodes_of_a100(), PlanGoal::memory, 5)) {
    EXPECT_TRUE(one.layout.shard == ShardChoice::none || one.layout.shard == ShardChoice::optimizer ||
                one.layout.data == 1);
  }
}

}  // namespace
}  // namespace trireme
