#include "train/facts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/expect_error.h"
#include "tests/support/local_ranks.h"
#include "tests/support/tiny_model.h"
#include "train/plan.h"

namespace trireme {
namespace {

/// Of what a plan says already: its spec and mesh.
RankPlan& planned_for(RankPlan& plan, const Config& config, const StepSize& step, const PlannedRank& rank,
                      const Ops& ops) {
  plan = plan_rank(plan.model(), config, step, rank);
  plan.memory = memory_of(plan, ops);
  return plan;
}

TEST(PlanMemory, OfARankIsWhatItsTableHolds) {
  run_local(1, [](RankContext& rank) {
    const Backend backend = make_backend();
    RankPlan plan;
    plan.spec = tiny_spec();
    plan.mesh = {.data = 1};
    const StepSize step{.micro_rows = 64};
    const MemoryPlan all = planned_for(plan, {}, step, planned(rank), *backend.ops).memory;
    EXPECT_EQ(all.state, TrainingState(*plan.table, DType::f32, true).bytes());
    const size_t values = 3 * static_cast<size_t>(plan.table->total()) * sizeof(float);
    EXPECT_NEAR(static_cast<double>(all.snapshot), static_cast<double>(values), 0.02 * static_cast<double>(values));
    plan.mesh = {.data = 1, .tensor = 2, .pipeline = 2};
    size_t snapshots = 0;
    for (int r = 0; r < 4; ++r) {
      const MemoryPlan own =
          planned_for(plan, {}, step, {.rank = r, .hosts = HostMap::one_host(4)}, *backend.ops).memory;
      snapshots += own.snapshot;
      EXPECT_EQ(own.state, TrainingState(*plan.table, DType::f32, true).bytes());
      EXPECT_LT(own.state, all.state / 2);
      EXPECT_LT(own.activations, all.activations);
      EXPECT_LT(own.snapshot, all.snapshot);
    }
    EXPECT_NEAR(static_cast<double>(snapshots), static_cast<double>(values), 0.05 * static_cast<double>(values));
  });
}

TEST(PlanMemory, CountsOfATiedMatrixSecondSumTheRowsThatAStepCanTouch) {
  const Backend backend = make_backend();
  RankPlan plan;
  plan.spec = tiny_spec();
  plan.spec.vocabulary = plan.spec.vocabulary_rows = 50'000;
  Config config;
  const size_t row_bytes = static_cast<size_t>(plan.spec.width) * sizeof(float), sum = 50'000 * row_bytes;
  const auto state = [&](int64_t data, int64_t rows, int64_t micro_batches) {
    plan.mesh = {.data = data};
    return planned_for(plan, config,
                       {.micro_batches = micro_batches, .micro_rows = rows, .step_rows = rows * micro_batches},
                       {.hosts = HostMap::one_host(static_cast<int>(data))}, *backend.ops)
        .memory.state;
  };
  const size_t all = TrainingState(ParameterTable(plan.spec), DType::f32, true).bytes();
  EXPECT_EQ(state(1, 16, 1), all - sum + 16 * (row_bytes + 4096));
  EXPECT_EQ(state(4, 16, 1), all - sum + 4 * 16 * (row_bytes + 4096));
  EXPECT_EQ(state(1, 16, 3), all - sum + 3 * 16 * (row_bytes + 4096)) << "later micro-batches have other tokens";
  EXPECT_EQ(state(1, 12'500, 1), all) << "so many rows are written as zeros";
  EXPECT_EQ(state(1, 12'499, 1), all) << "their pages are all there are";
  config.optim.shard = ShardChoice::gradients;
  EXPECT_EQ(state(2, 16, 1), state(2, 16, 3)) << "its sum is another one, of two layers at a time";
}

TEST(PlanMemory, OfFrozenParametersIsTheirWeights) {
  const Backend backend = make_backend();
  RankPlan plan;
  plan.spec = tiny_spec();
  plan.mesh = {.data = 1};
  Config config;
  config.train.freeze = "embedding,block.0";
  const MemoryPlan memory = planned_for(plan, config, {.micro_batches = 2, .micro_rows = 64}, {}, *backend.ops).memory;
  const ParameterTable& table = *plan.table;
  EXPECT_EQ(memory.state, TrainingState(table, DType::f32, true).bytes());
  const auto values = static_cast<size_t>(table.flat_count() + 3 * table.trained_count());
  EXPECT_NEAR(static_cast<double>(memory.state), static_cast<double>(values * sizeof(float)), 256);
  EXPECT_FALSE(plan.shape.trains_decoder);
  const size_t stored = static_cast<size_t>(table.total() + 2 * table.total_trained()) * sizeof(float);
  EXPECT_NEAR(static_cast<double>(memory.snapshot), static_cast<double>(stored), 0.05 * static_cast<double>(stored));
  EXPECT_EQ(describe_trained(table),
            fmt::format("{:.2f}M of {:.2f}M parameters, in {} of {} tensors",
                        static_cast<double>(table.total_trained()) / 1e6, static_cast<double>(table.total()) / 1e6,
                        std::ranges::count_if(table.all(), [](const Parameter& p) { return p.trained(); }),
                        table.all().size()));
  config.train.freeze = "blok";
  EXPECT_ERROR(plan_rank(plan.model(), config, {.micro_rows = 64}, {}), ErrorKind::config,
               "train.freeze: \"blok\" matches no");
}

TEST(PlanMemory, OfNcclFollowsFromTheConnectionsOfAGpu) {
  const Backend backend = make_backend();
  RankPlan plan;
  plan.spec = tiny_spec();
  plan.spec.layers = 4;
  Config config;
  const auto peers = [&](const MeshShape& mesh, std::vector<int> hosts, int rank = 0) {
    plan.mesh = mesh;
    const HostMap map = hosts.empty() ? HostMap::one_host(8) : HostMap(hosts);
    const PlannedRank on_gpu{.rank = rank, .hosts = map, .gpu = true};
    return static_cast<double>(planned_for(plan, config, {.micro_rows = 8}, on_gpu, *backend.ops).memory.nccl) /
           154.140672e6;
  };
  const std::vector<int> two_hosts{0, 0, 0, 0, 1, 1, 1, 1};
  EXPECT_EQ(peers({.data = 1}, {0}), 0);
  EXPECT_EQ(peers({.data = 8}, {}), 7);
  EXPECT_EQ(peers({.data = 8}, two_hosts), 3 + 1 + 3) << "inside the host, between hosts, inside again";
  EXPECT_EQ(peers({.data = 1, .tensor = 2, .pipeline = 4}, {}), 1 + 2 + 2) << "and the other end of the tied matrix";
  EXPECT_EQ(peers({.data = 1, .tensor = 2, .pipeline = 4}, {}, 2), 1 + 4);
  config.optim.shard = ShardChoice::optimizer;
  EXPECT_EQ(peers({.data = 8}, {}), 14) << "and for the weights of their owners";
  config.comm.reduce = ReduceOrder::nccl;
  EXPECT_EQ(peers({.data = 8}, {}), 5 + 7);
  const PlannedRank on_cpu{.hosts = HostMap::one_host(8)};
  config.comm.reduce = ReduceOrder::automatic;
  EXPECT_EQ(planned_for(plan, config, {.micro_rows = 8}, on_cpu, *backend.ops).memory.nccl, 0u);
}

TEST(PlanRank, AccumulatesWhereAStepMayHaveSeveralMicroBatches) {
  RankPlan plan;
  plan.spec = tiny_spec();
  plan.mesh = {.data = 2};
  Config config;
  const PlannedRank rank{.hosts = HostMap::one_host(2)};
  const auto accumulates = [&](const StepSize& step) {
    plan = plan_rank(plan.model(), config, step, rank);
    return plan.shape.accumulates;
  };
  EXPECT_FALSE(accumulates({.micro_rows = 8}));
  EXPECT_TRUE(accumulates({.micro_batches = 2, .micro_rows = 8}));
  EXPECT_TRUE(accumulates({.varies = true, .micro_rows = 8}));
  config.optim.shard = ShardChoice::gradients;  // which leave the array after each of them
  EXPECT_FALSE(accumulates({.micro_batches = 2, .micro_rows = 8}));
}

TEST(PlanRank, OfOneThatOnlyEvaluatesSharesNothingButWeights) {
  RankPlan plan;
  plan.spec = tiny_spec();
  plan.mesh = {.data = 2};
  const auto kept = [&](ShardChoice shard, bool trains) {
    Config config;
    config.optim.shard = shard;
    config.evaluation.only = !trains;
    plan = plan_rank(plan.model(), config, {.micro_rows = 8}, {.hosts = HostMap::one_host(2)});
    EXPECT_EQ(plan.shape.training, trains);
    return plan.kept;
  };
  EXPECT_FALSE(kept(ShardChoice::optimizer, true).owned.empty());
  EXPECT_TRUE(kept(ShardChoice::optimizer, false).owned.empty());
  EXPECT_TRUE(kept(ShardChoice::gradients, false).owned.empty());
  EXPECT_TRUE(kept(ShardChoice::parameters, false).weights);
}

TEST(ExchangeFact, SaysWhichOrderOfTheSumSendsLess) {
  Config config;
  RankPlan plan;
  plan.spec = tiny_spec();
  plan.mesh = {.data = 4};
  plan.table.emplace(plan.spec);
  const double array = 2.0 * static_cast<double>(plan.table->flat_count()) / 1e6;  // bf16
  const std::vector<int> two_hosts{0, 0, 1, 1}, each_its_own{0, 1, 2, 3}, uneven{0, 0, 0, 1};
  const auto described = [&](const HostMap& hosts) {
    plan.rank.hosts = hosts;
    return describe_exchange(config, plan);
  };
  EXPECT_EQ(described(HostMap(two_hosts)),
            fmt::format("each host sends {:.1f} MB of gradients per step to its data-parallel peers, but {:.1f} MB "
                        "with --comm.reduce hosts, which is faster if the network is the bottleneck",
                        2 * array, array));
  config.comm.reduce = ReduceOrder::hosts;
  EXPECT_EQ(described(HostMap(two_hosts)),
            fmt::format("each host sends {:.1f} MB of gradients per step to its data-parallel peers, instead of {:.1f} "
                        "MB with --comm.reduce flat",
                        array, 2 * array));
  EXPECT_EQ(described(HostMap(each_its_own)), "");
  EXPECT_EQ(described(HostMap(uneven)), "");
  EXPECT_EQ(described(HostMap::one_host(4)), "");
}

TEST(SumsFact, SaysWhatAutoChoseAndWhatALibraryDoes) {
  Config config;
  RankPlan plan;
  plan.rank.gpu = true;
  const std::vector<int> two_hosts{0, 0, 1, 1}, each_its_own{0, 1, 2, 3}, uneven{0, 0, 0, 1};
  const auto said = [&](const MeshShape& mesh, const HostMap& hosts) {
    plan.mesh = mesh;
    plan.rank.hosts = hosts;
    return describe_sums(config, plan, "NCCL 2.28.9");
  };
  const auto order = [&] { return reduce_order(config, plan.mesh, plan.rank.hosts, plan.rank.gpu); };
  const char* flat =
      "of gradients in rank order (flat), because comm.reduce is auto and data ranks are not on several hosts in equal "
      "numbers, more than one on each";
  EXPECT_EQ(
      said({.data = 4}, HostMap(two_hosts)),
      "of gradients first on each host (hosts), because comm.reduce is auto and GPUs of 2 hosts with 2 data ranks "
      "each compute; --comm.reduce flat adds them as on CPUs");
  EXPECT_EQ(order(), ReduceOrder::hosts);
  EXPECT_FALSE(optimizer_options(config, plan.mesh, 0, plan.rank.hosts, true, {}).hosts.ranks_per_host() == 0);
  EXPECT_EQ(said({.data = 2, .tensor = 2}, HostMap(two_hosts)), flat) << "one data rank per host";
  EXPECT_EQ(order(), ReduceOrder::flat);
  EXPECT_EQ(said({.data = 2, .pipeline = 2}, HostMap(two_hosts)), flat) << "each stage on a host of its own";
  EXPECT_EQ(order(), ReduceOrder::flat);
  EXPECT_EQ(said({.data = 4}, HostMap(each_its_own)), flat);
  EXPECT_EQ(said({.data = 4}, HostMap(uneven)), flat);
  EXPECT_EQ(order(), ReduceOrder::flat);
  EXPECT_EQ(said({.data = 4}, HostMap::one_host(4)), "") << "no choice";
  plan.rank.gpu = false;
  EXPECT_EQ(said({.data = 4}, HostMap(two_hosts)), "") << "CPUs keep the order of ranks";
  EXPECT_EQ(order(), ReduceOrder::flat);
  plan.rank.gpu = true;
  config.comm.reduce = ReduceOrder::nccl;
  EXPECT_EQ(said({.data = 4}, HostMap(two_hosts)),
            "of gradients by NCCL 2.28.9 itself, in bf16: it chooses the order and where it rounds, so the bits differ "
            "from those of --comm.reduce flat and hosts, and may differ with its version and the number of GPUs");
  EXPECT_EQ(describe_exchange(config, plan), "") << "what travels, it chooses, too";
  EXPECT_TRUE(optimizer_options(config, plan.mesh, 0, plan.rank.hosts, true, {}).by_library);
  EXPECT_EQ(said({.tensor = 4}, HostMap(two_hosts)), "");
}

TEST(Hosts, ThatCannotAddTheirRanksFirstAreRefused) {
  Config config;
  const std::vector<int> uneven{0, 0, 0, 1}, each_its_own{0, 1}, pairs{0, 0, 1, 1};
  EXPECT_NO_THROW(require_hosts(config, {.data = 4}, HostMap(uneven)));
  config.comm.reduce = ReduceOrder::hosts;
  EXPECT_ERROR(require_hosts(config, {.data = 4}, HostMap(uneven)), ErrorKind::config,
               "comm.reduce is hosts, which needs the same number of data ranks on every host, but 2 hosts have 3, 1 "
               "of the 4 replicas of rank 0; start the same number of ranks on every host, or set --comm.reduce flat");
  EXPECT_NO_THROW(require_hosts(config, {.data = 4}, HostMap(pairs)));
  EXPECT_NO_THROW(require_hosts(config, {.data = 2}, HostMap(each_its_own)));
  config.optim.shard_group = ShardGroup::host;
  EXPECT_NO_THROW(require_hosts(config, {.data = 4}, HostMap(pairs)));
  EXPECT_ERROR(require_hosts(config, {.data = 2, .tensor = 2}, HostMap(pairs)), ErrorKind::config,
               "optim.shard-group is host, but every host has only one data rank; start more ranks per host, or set "
               "--optim.shard-group all");
}

}  // namespace
}  // namespace trireme
