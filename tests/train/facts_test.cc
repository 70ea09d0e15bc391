#include "train/facts.h"

#include <gtest/gtest.h>

#include "model/mesh_layout.h"

#include "tests/support/expect_error.h"
#include "tests/support/local_ranks.h"
#include "tests/support/tiny_model.h"
#include "train/optim_options.h"

namespace trireme {
namespace {

TEST(PlanMemory, OfARankIsWhatItsTableHolds) {
  run_local(1, [](RankContext& rank) {
    const Backend backend = make_backend();
    RunPlan plan;
    plan.spec = tiny_spec();
    plan.shape = {.rows = 64};
    plan.mesh = {.data = 1};
    const ParameterTable whole(plan.spec);
    const MemoryPlan all = plan_memory(plan, whole, *backend.ops, planned(rank));
    EXPECT_EQ(all.state, TrainingState(whole, DType::f32, true).bytes());
    const size_t values = 3 * static_cast<size_t>(whole.total()) * sizeof(float);
    EXPECT_NEAR(static_cast<double>(all.snapshot), static_cast<double>(values), 0.02 * static_cast<double>(values));
    plan.mesh = {.data = 1, .tensor = 2, .pipeline = 2};
    size_t snapshots = 0;
    for (int r = 0; r < 4; ++r) {
      const ParameterTable table(plan.spec, InitScheme::gpt2, layout_of(plan.spec, plan.mesh, r));
      const MemoryPlan own = plan_memory(plan, table, *backend.ops, {.rank = r, .hosts = HostMap::one_host(4)});
      snapshots += own.snapshot;
      EXPECT_EQ(own.state, TrainingState(table, DType::f32, true).bytes());
      EXPECT_LT(own.state, all.state / 2);
      EXPECT_LT(own.activations, all.activations);
      EXPECT_LT(own.snapshot, all.snapshot);
    }
    EXPECT_NEAR(static_cast<double>(snapshots), static_cast<double>(values), 0.05 * static_cast<double>(values));
  });
}

TEST(PlanMemory, CountsOfATiedMatrixSecondSumTheRowsThatAStepCanTouch) {
  const Backend backend = make_backend();
  RunPlan plan;
  plan.spec = tiny_spec();
  plan.spec.vocabulary = plan.spec.vocabulary_rows = 50'000;
  const ParameterTable table(plan.spec);
  const size_t row_bytes = static_cast<size_t>(plan.spec.width) * sizeof(float), sum = 50'000 * row_bytes;
  const auto state = [&](int64_t data, int64_t rows, int64_t micro_batches) {
    plan.mesh = {.data = data};
    plan.shape = {.rows = rows, .accumulates = micro_batches > 1};
    plan.step_rows = rows * micro_batches;
    return plan_memory(plan, table, *backend.ops, {.hosts = HostMap::one_host(static_cast<int>(data))}).state;
  };
  const size_t all = TrainingState(table, DType::f32, true).bytes();
  EXPECT_EQ(state(1, 16, 1), all - sum + 16 * (row_bytes + 4096));
  EXPECT_EQ(state(4, 16, 1), all - sum + 4 * 16 * (row_bytes + 4096));
  EXPECT_EQ(state(1, 16, 3), all - sum + 3 * 16 * (row_bytes + 4096)) << "later micro-batches have other tokens";
  EXPECT_EQ(state(1, 12'500, 1), all) << "so many rows are written as zeros";
  EXPECT_EQ(state(1, 12'499, 1), all) << "their pages are all there are";
  plan.loaded.config.optim.shard = ShardChoice::gradients;
  EXPECT_EQ(state(2, 16, 1), state(2, 16, 3)) << "its sum is another one, of two layers at a time";
}

TEST(ExchangeFact, SaysWhichOrderOfTheSumSendsLess) {
  RunPlan plan;
  plan.spec = tiny_spec();
  plan.mesh = {.data = 4};
  const ParameterTable table(plan.spec);
  const double array = 2.0 * static_cast<double>(table.flat_count()) / 1e6;  // bf16
  const std::vector<int> two_hosts{0, 0, 1, 1}, each_its_own{0, 1, 2, 3}, uneven{0, 0, 0, 1};
  EXPECT_EQ(
      describe_exchange(plan, table, {.hosts = HostMap(two_hosts)}),
      fmt::format("{:.1f} MB of gradients leave each host per step for the data ranks that hold the same, but {:.1f} "
                  "MB with --comm.reduce hosts, which is faster where the network is the limit",
                  2 * array, array));
  plan.loaded.config.comm.reduce = ReduceOrder::hosts;
  EXPECT_EQ(
      describe_exchange(plan, table, {.hosts = HostMap(two_hosts)}),
      fmt::format("{:.1f} MB of gradients leave each host per step for the data ranks that hold the same, instead of "
                  "{:.1f} MB with --comm.reduce flat",
                  array, 2 * array));
  EXPECT_EQ(describe_exchange(plan, table, {.hosts = HostMap(each_its_own)}), "");
  EXPECT_EQ(describe_exchange(plan, table, {.hosts = HostMap(uneven)}), "");
  EXPECT_EQ(describe_exchange(plan, table, {.hosts = HostMap::one_host(4)}), "");
}

TEST(Hosts, ThatCannotAddTheirRanksFirstAreRefused) {
  Config config;
  const std::vector<int> uneven{0, 0, 0, 1}, each_its_own{0, 1}, pairs{0, 0, 1, 1};
  EXPECT_NO_THROW(require_hosts(config, {.data = 4}, HostMap(uneven)));
  config.comm.reduce = ReduceOrder::hosts;
  EXPECT_ERROR(
      require_hosts(config, {.data = 4}, HostMap(uneven)), ErrorKind::config,
      "comm.reduce is hosts, which needs as many data ranks on every host, and 2 hosts have 3, 1 of the 4 that "
      "hold the same as rank 0; start as many ranks on every host, or set --comm.reduce flat");
  EXPECT_NO_THROW(require_hosts(config, {.data = 4}, HostMap(pairs)));
  EXPECT_NO_THROW(require_hosts(config, {.data = 2}, HostMap(each_its_own)));
  config.optim.shard_group = ShardGroup::host;
  EXPECT_NO_THROW(require_hosts(config, {.data = 4}, HostMap(pairs)));
  EXPECT_ERROR(
      require_hosts(config, {.data = 2, .tensor = 2}, HostMap(pairs)), ErrorKind::config,
      "optim.shard-group is host, and every host has one data rank, which has nobody to share with; start more "
      "ranks per host, or set --optim.shard-group all");
}

}  // namespace
}  // namespace trireme
