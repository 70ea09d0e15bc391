#include "train/start/run_forecast.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <regex>
#include <set>
#include <tuple>

#include "model/model_options.h"
#include "tests/support/expect_error.h"
#include "train/start/rank_table.h"
#include "train/start/resolve.h"

namespace trireme {
namespace {

LoadedConfig configured(const std::vector<std::string>& flags) {
  std::vector<std::string> words{"--model.layers",  "8",   "--model.heads",      "8",    "--model.width",  "256",
                                 "--model.context", "128", "--model.vocabulary", "1000", "--batch.global", "32"};
  words.insert(words.end(), flags.begin(), flags.end());
  LoadedConfig loaded = load_config({}, words);
  resolve_model_options(loaded);
  return loaded;
}

PlannedNodes on_nodes(int64_t nodes, int64_t per_node = 1) {
  NodeType type;
  type.name = "made";
  type.cores = per_node;
  type.tflops = 1;
  type.memory_gb = 64;
  type.memory_gb_per_s = 100;
  type.network_gbit_per_s = 10;
  return {type, nodes, per_node};
}

/// The largest number in rank_table()'s column of memory, GB with two digits.
double largest_in_table(LoadedConfig loaded, int ranks, int hosts) {
  resolve_for_ranks(loaded, ranks);
  const std::string table = rank_table(loaded, ranks, hosts);
  const std::regex line(R"(([0-9]+\.[0-9]+) GB +[0-9.]+ GB +[0-9.]+ GB)");
  double largest = 0;
  for (std::sregex_iterator it(table.begin(), table.end(), line), end; it != end; ++it)
    largest = std::max(largest, std::stod((*it)[1]));
  return largest;
}

TEST(RunForecast, HasTheMemoryOfTheRankThatNeedsMost) {
  for (const std::vector<std::string>& flags : {std::vector<std::string>{},
                                                {"--mesh.pipeline", "4"},
                                                {"--mesh.pipeline", "2", "--mesh.chunks", "2", "--batch.micro", "4"},
                                                {"--mesh.tensor", "2", "--optim.shard", "parameters"},
                                                {"--mesh.pipeline", "8", "--model.recompute", "full"}}) {
    const LoadedConfig loaded = configured(flags);
    const RunForecast forecast = forecast_run(loaded, on_nodes(4, 2));
    EXPECT_NEAR(forecast.memory() / 1e9, largest_in_table(loaded, 8, 4), 0.0051) << fmt::format("{}", flags.size());
    EXPECT_TRUE(forecast.fits());
  }
}

TEST(RunForecast, HasTheTimeOfItsLayout) {
  const LoadedConfig loaded = configured({"--mesh.tensor", "2", "--batch.micro", "4", "--model.recompute", "full",
                                          "--optim.shard", "optimizer", "--run.steps", "1000"});
  PlannedNodes on = on_nodes(4);
  on.type.price_per_hour = 3;
  const RunForecast forecast = forecast_run(loaded, on);
  EXPECT_EQ(forecast.layout.data, 2);
  EXPECT_EQ(forecast.layout.tensor, 2);
  EXPECT_EQ(forecast.layout.micro_batches(), 4);
  EXPECT_EQ(forecast.layout.recomputed, Recomputed::layers);
  EXPECT_EQ(forecast.layout.shard, ShardChoice::optimizer);
  const MachineRates rates = trireme_rates(on.type, 1, {DType::f32, DType::bf16, false});
  EXPECT_EQ(forecast.time.total(), step_time(forecast.model, forecast.layout, rates).total());
  EXPECT_EQ(forecast.tokens, 32 * 128);
  EXPECT_DOUBLE_EQ(forecast.days(), 1000 * forecast.time.total() / 86400);
  EXPECT_DOUBLE_EQ(forecast.dollars(), forecast.days() * 24 * 3 * 4);
}

/// What stages on several nodes wait for is simulated, whatever nodes their borders are on.
TEST(RunForecast, OfAPipelineOverNodesTakesItsSimulatedTime) {
  for (const auto& [stages, nodes, each] :
       {std::tuple<const char*, int64_t, int64_t>{"4", 4, 1}, {"4", 2, 2}, {"8", 2, 4}, {"2", 3, 4}, {"2", 2, 1}}) {
    PlannedNodes on = on_nodes(nodes, each);
    on.type.network_gbit_per_s = 0.1;
    const RunForecast forecast =
        forecast_run(configured({"--mesh.pipeline", stages, "--batch.micro", "1", "--batch.global", "48"}), on);
    const double simulated = simulate_run(forecast, {}).seconds;
    EXPECT_NEAR(forecast.time.total() / simulated, 1, 1e-6) << stages << " stages on " << nodes;
    EXPECT_GT(forecast.time.stage_messages, 0.05 * simulated);
  }
}

TEST(RunForecast, RefusesLayoutsThatNobodyCanHave) {
  EXPECT_ERROR(forecast_run(configured({"--mesh.tensor", "3"}), on_nodes(6)), ErrorKind::config, "heads");
  EXPECT_ERROR(forecast_run(configured({"--mesh.pipeline", "9"}), on_nodes(9)), ErrorKind::config, "9");
  EXPECT_ERROR(forecast_run(configured({"--mesh.tensor", "2"}), on_nodes(3)), ErrorKind::config, "3");
  EXPECT_ERROR(forecast_run(configured({}), on_nodes(5)), ErrorKind::config, "5");
  EXPECT_ERROR(
      forecast_run(configured({"--precision.dtype", "f16"}), on_nodes(1)), ErrorKind::config,
      "precision.dtype (flag --precision.dtype) is f16, in which CPUs cannot train, and nodes of type made have "
      "no GPUs; set --precision.dtype bf16");
  EXPECT_ERROR(forecast_run(configured({"--comm.reduce", "nccl"}), on_nodes(1)), ErrorKind::config,
               "is nccl, which adds gradients between GPUs, and nodes of type made have none; set --comm.reduce auto");
  LoadedConfig longer = load_config({}, {"--model.preset", "gpt2-124m", "--batch.sequence", "4096"});
  resolve_model_options(longer);
  EXPECT_ERROR(forecast_run(longer, on_nodes(1)), ErrorKind::config,
               "batch.sequence is 4096, but the model has only 1024 positions; lower it or raise model.context");
  PlannedNodes slow = on_nodes(2);
  slow.type.network_gbit_per_s = 0;
  EXPECT_ERROR(forecast_run(configured({}), slow), ErrorKind::config,
               "the network bandwidth of a node is 0, expected a positive number");
}

/// One rank of it would have more micro-batches of one sequence than the trainer takes.
TEST(RunForecast, FindsLayoutsForABatchOfManySequences) {
  const LoadedConfig loaded = configured({"--batch.global", "65536"});
  const std::vector<RunForecast> best = best_layouts(loaded, on_nodes(64), PlanGoal::time, 2);
  ASSERT_FALSE(best.empty());
  EXPECT_EQ(best[0].layout.global_batch, 65536);
}

TEST(RunForecast, OfGpusIsOfTheirMemory) {
  PlannedNodes gpus{node_type("dgx-a100"), 1, 1};
  const RunForecast one = forecast_run(configured({}), gpus);
  const MemoryPlan& memory = one.plan.memory;
  EXPECT_EQ(one.memory_limit(), 0.95 * 80e9);
  EXPECT_EQ(one.memory(), static_cast<double>(memory.state + memory.activations + memory.scratch));
  EXPECT_GT(memory.scratch, 0u);
  EXPECT_GT(memory.snapshot, 0u) << "on the host";
  gpus = {node_type("dgx-a100"), 2, 8};
  const RunForecast many = forecast_run(configured({"--optim.shard", "optimizer", "--run.device", "cuda"}), gpus);
  EXPECT_GT(many.plan.memory.exchange, 0u);
  EXPECT_LT(many.plan.memory.state, memory.state);
  EXPECT_GT(many.time.exchange, 0);
}

TEST(RunForecast, RefusesWhatGpusCannotHave) {
  const auto on = [](int64_t nodes, int64_t per_node) { return PlannedNodes{node_type("dgx-a100"), nodes, per_node}; };
  EXPECT_ERROR(forecast_run(configured({}), on(1, 16)), ErrorKind::config,
               "node type dgx-a100 has 8 GPUs: expected at most one rank for each, found 16");
  EXPECT_ERROR(forecast_run(configured({"--optim.shard", "gradients"}), on(1, 8)), ErrorKind::config,
               "optim.shard is gradients, which GPUs do not support: their memory is not given back in parts; set "
               "--optim.shard optimizer (shards the optimizer state), or --run.device cpu");
  EXPECT_ERROR(forecast_run(configured({"--run.device", "cpu"}), on(1, 8)), ErrorKind::config,
               "run.device (flag --run.device) is cpu, but nodes of type dgx-a100 are planned with their GPUs; set "
               "--run.device cuda");
  EXPECT_ERROR(
      forecast_run(configured({"--run.device", "cuda"}), on_nodes(1)), ErrorKind::config,
      "run.device (flag --run.device) is cuda, but nodes of type made have no GPUs; name a type that has some");
}

TEST(RankTable, OfGpusHasTheirMemoryWithoutOne) {
  LoadedConfig loaded = configured({"--run.device", "cuda", "--model.width", "1024"});
  resolve_for_ranks(loaded, 8);
  EXPECT_EQ(planned_devices(loaded.config), PlannedDevices::gpus);
  const std::string table = rank_table(loaded, 8, 1, PlannedDevices::gpus);
  EXPECT_THAT(table,
              testing::HasSubstr("Memory is that of a GPU for each rank, without CUDA's own (less than 1 GB), and 8 "
                                 "ranks per host.\n"));
  EXPECT_THAT(table, testing::HasSubstr("activations  NCCL, estimated\n"));
  EXPECT_THAT(table, testing::HasSubstr("  1.08 GB\n")) << "of seven other ranks";
  const RunForecast forecast = forecast_run(loaded, {node_type("dgx-a100"), 1, 8});
  EXPECT_THAT(table, testing::HasSubstr(fmt::format("  {:.2f} GB  ", forecast.memory() / 1e9)));
  loaded = configured({"--run.device", "cuda", "--optim.shard", "parameters"});
  resolve_for_ranks(loaded, 8);
  EXPECT_ERROR(rank_table(loaded, 8, 1, PlannedDevices::gpus), ErrorKind::config,
               "optim.shard is parameters, which GPUs do not support");
}

TEST(BestLayouts, AreTheFastestOfEachMeshInOrder) {
  const LoadedConfig loaded = configured({});
  const std::vector<RunForecast> best = best_layouts(loaded, on_nodes(8), PlanGoal::time, 5);
  ASSERT_EQ(best.size(), 5);
  std::set<std::tuple<int64_t, int64_t, int64_t>> meshes;
  for (const RunForecast& one : best) {
    EXPECT_TRUE(one.fits());
    meshes.insert({one.layout.data, one.layout.tensor, one.layout.pipeline});
  }
  EXPECT_EQ(meshes.size(), 5);
  EXPECT_TRUE(std::ranges::is_sorted(best, {}, [](const RunForecast& one) { return one.time.total(); }));
  EXPECT_LE(best[0].time.total(), forecast_run(loaded, on_nodes(8)).time.total());
  // The lines of YAML choose this layout.
  const RunForecast again = forecast_run(with_layout(loaded, best[1].layout), on_nodes(8));
  EXPECT_EQ(again.time.total(), best[1].time.total());
  EXPECT_EQ(again.memory(), best[1].memory());
  EXPECT_THAT(layout_yaml(best[1].layout),
              testing::HasSubstr(fmt::format("mesh:\n  data: {}\n  tensor: {}\n  pipeline: {}\n", best[1].layout.data,
                                             best[1].layout.tensor, best[1].layout.pipeline)));
}

/// What the configuration's own layout has need not be possible for one rank, nor for the layouts that are tried.
TEST(BestLayouts, AreFoundWhateverTheOptionsFix) {
  for (const std::vector<std::string>& fixed :
       {std::vector<std::string>{"--optim.shard", "optimizer", "--optim.shard-group", "host", "--comm.reduce", "hosts"},
        {"--optim.shard", "parameters", "--optim.shard-group", "host", "--comm.reduce", "hosts"},
        {"--optim.shard", "gradients"},
        {"--comm.reduce", "hosts"},
        {"--mesh.pipeline", "2", "--mesh.stages", "5,3"},
        {"--mesh.pipeline", "2", "--mesh.chunks", "2"},
        {"--mesh.tensor", "2", "--mesh.sequence", "true"},
        {"--model.recompute", "full", "--batch.micro", "2"},
        {"--batch.accumulation", "4"},
        {"--batch.global", "24", "--mesh.tensor", "4"},
        {"--train.only", "*bias*"},
        {"--lora.rank", "4"}}) {
    const LoadedConfig loaded = configured(fixed);
    const std::vector<RunForecast> best = best_layouts(loaded, on_nodes(4, 2), PlanGoal::time, 5);
    EXPECT_FALSE(best.empty()) << fixed[0] << " " << fixed[1];
    for (const RunForecast& one : best) {
      EXPECT_EQ(one.loaded.config.optim.shard_group, loaded.config.optim.shard_group);
      EXPECT_TRUE(loaded.config.optim.shard_group == ShardGroup::all || one.layout.shard != ShardChoice::none);
    }
  }
}

TEST(BestLayouts, SayWhichNodesCanShareABatch) {
  const auto loaded = [](int64_t batch) {
    LoadedConfig one =
        load_config({}, {"--model.layers", "1", "--model.heads", "1", "--model.width", "64", "--model.context", "64",
                         "--model.vocabulary", "100", "--batch.global", std::to_string(batch)});
    resolve_model_options(one);
    return one;
  };
  EXPECT_TRUE(best_layouts(loaded(256), on_nodes(3, 8), PlanGoal::time, 5).empty());
  EXPECT_THAT(*nodes_that_share_the_batch(loaded(256), on_nodes(3, 8)), testing::ElementsAre(2, 4));
  EXPECT_THAT(*nodes_that_share_the_batch(loaded(7), on_nodes(3, 8)), testing::IsEmpty());
  EXPECT_FALSE(nodes_that_share_the_batch(loaded(240), on_nodes(3, 8)).has_value());
}

TEST(Remedies, ForManyGpusNameWhatNeedsFewerConnections) {
  const auto options_for = [](const std::vector<std::string>& flags) {
    std::vector<std::string> words{"--batch.global", "512"};
    words.insert(words.end(), flags.begin(), flags.end());
    const LoadedConfig loaded = configured(words);
    const RunForecast given = forecast_run(loaded, {node_type("dgx-a100"), 64, 8});
    EXPECT_FALSE(given.fits()) << given.memory() / 1e9;
    EXPECT_GT(static_cast<double>(given.plan.memory.nccl), 0.9 * given.memory()) << "of 511 other ranks";
    std::vector<std::string> options;
    for (const Remedy& remedy : remedies_for(loaded, given)) {
      EXPECT_TRUE(remedy.forecast.fits()) << remedy.options;
      options.push_back(remedy.options);
    }
    return options;
  };
  EXPECT_THAT(options_for({"--optim.shard", "optimizer"}),
              testing::Contains("--optim.shard-group host --comm.reduce hosts"));
  EXPECT_THAT(options_for({"--comm.reduce", "flat"}), testing::Contains("--comm.reduce nccl"));
}

TEST(SplitTensorGroups, AreNamedWithASizeThatIsNot) {
  const auto text = [](int64_t tensor, int ranks, int hosts) {
    return split_tensor_groups({.data = ranks / tensor, .tensor = tensor}, even_hosts(ranks, hosts));
  };
  EXPECT_EQ(text(6, 24, 3),
            "2 of 4 tensor groups are on several hosts, so that the sums of every layer use the network; with "
            "--mesh.tensor 4 each is on one host");
  EXPECT_EQ(text(4, 24, 3), "");
  EXPECT_EQ(text(8, 24, 3), "");
  EXPECT_THAT(text(16, 32, 4), testing::StartsWith("2 of 2 tensor groups are on several hosts"));
  EXPECT_THAT(text(16, 32, 4), testing::EndsWith("with --mesh.tensor 8 each is on one host"));
  EXPECT_EQ(text(2, 4, 4), "") << "a rank on each host has no other one";
  const std::vector<int> uneven{0, 0, 0, 1, 1, 1, 1, 1};
  EXPECT_EQ(split_tensor_groups({.data = 4, .tensor = 2}, HostMap(uneven)),
            "1 of 4 tensor groups is on several hosts, so that the sums of every layer use the network; set "
            "--mesh.tensor to a number that divides the ranks of every host");
}

TEST(BestLayouts, LeaveOutWhatDoesNotFit) {
  const LoadedConfig loaded = configured({"--model.layers", "16", "--model.width", "1024"});
  PlannedNodes on = on_nodes(8);
  const double most = forecast_run(loaded, on).memory();
  on.type.memory_gb = 0.5 * most / 1e9;
  EXPECT_FALSE(forecast_run(loaded, on).fits());
  const std::vector<RunForecast> best = best_layouts(loaded, on, PlanGoal::time, 5);
  ASSERT_FALSE(best.empty());
  for (const RunForecast& one : best) EXPECT_LE(one.memory(), 0.95 * 0.5 * most);
  on.type.memory_gb = 1e-3;
  EXPECT_TRUE(best_layouts(loaded, on, PlanGoal::time, 5).empty());
}

TEST(BestLayouts, ForMemoryAndForCost) {
  const LoadedConfig loaded = configured({"--run.steps", "100"});
  PlannedNodes on = on_nodes(8);
  const std::vector<RunForecast> small = best_layouts(loaded, on, PlanGoal::memory, 5);
  ASSERT_EQ(small.size(), 5);
  EXPECT_TRUE(std::ranges::is_sorted(small, {}, [](const RunForecast& one) { return one.memory(); }));
  EXPECT_LT(small[0].memory(), best_layouts(loaded, on, PlanGoal::time, 1)[0].memory());
  EXPECT_ERROR(best_layouts(loaded, on, PlanGoal::cost, 5), ErrorKind::config,
               "--goal cost needs a price, and node type made has none; set price-per-hour");
  on.type.price_per_hour = 2;
  on.type.network_gbit_per_s = 0.01;  // so that one node is the cheapest
  const std::vector<RunForecast> cheap = best_layouts(loaded, on, PlanGoal::cost, 5);
  ASSERT_EQ(cheap.size(), 5);
  EXPECT_EQ(cheap[0].on.nodes, 1);
  for (size_t i = 1; i < cheap.size(); ++i) EXPECT_GE(cheap[i].dollars(), 0.98 * cheap[i - 1].dollars());
  on.type.network_gbit_per_s = on.type.memory_gb_per_s =
      1e6;                // so that the cost does not depend on the number of nodes
  on.type.tflops /= 1e3;  // nor on how often messages start
  on.type.f32_tflops /= 1e3;
  EXPECT_EQ(best_layouts(loaded, on, PlanGoal::cost, 1)[0].on.nodes, 8) << "then the fastest";
}

TEST(BestLayouts, OfAThousandRanksAreFoundInTwoSeconds) {
  LoadedConfig loaded = load_config({}, {"--model.preset", "neox-13b", "--batch.global", "2048"});
  resolve_model_options(loaded);
  PlannedNodes on{node_type("azure-hb176rs-v4"), 1024, 1};
  for (const PlanGoal goal : {PlanGoal::time, PlanGoal::memory, PlanGoal::cost}) {
    const std::clock_t start = std::clock();
    EXPECT_EQ(best_layouts(loaded, on, goal, 5).size(), 5);
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 2) << name_of(goal);
  }
}

}  // namespace
}  // namespace trireme
