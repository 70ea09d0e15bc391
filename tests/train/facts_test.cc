#include "train/facts.h"

#include <gtest/gtest.h>

#include "tests/support/layouts.h"
#include "tests/support/local_ranks.h"
#include "tests/support/tiny_model.h"

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
    const std::vector<Layout> layouts = layouts_of(plan.spec, 2, 2);
    for (const Layout& layout : layouts) {
      const ParameterTable table(plan.spec, InitScheme::gpt2, layout);
      const MemoryPlan own = plan_memory(plan, table, *backend.ops, planned(rank));
      EXPECT_EQ(own.state, TrainingState(table, DType::f32, true).bytes());
      EXPECT_LT(own.state, all.state / 2);
      EXPECT_LT(own.activations, all.activations);
      EXPECT_LT(own.snapshot, all.snapshot);
    }
  });
}

}  // namespace
}  // namespace trireme
