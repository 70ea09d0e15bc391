#include "plan/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <tuple>

#include "plan/node_type.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

ModelSize decoder(int64_t layers, int64_t vocabulary = 1000) {
  return {.layers = layers, .width = 256, .heads = 8, .sequence = 128, .vocabulary = vocabulary};
}

/// Computing nodes of four ranks whose links take no time.
MachineRates computing() {
  return {.peak_flops = 1e12, .memory_bytes = 1e11, .node_ranks = 4, .inner_bytes = 1e30, .node_bytes = 1e30};
}

TEST(Simulator, OneRankTakesThePlannedTime) {
  const StepLayout layout{.global_batch = 8, .micro_batch = 2};
  const SimulatedStep step = simulate_step(decoder(4), layout, computing());
  EXPECT_NEAR(step.seconds, step_time(decoder(4), layout, computing()).total(), 1e-9);
  EXPECT_EQ(step.groups, 1);
  EXPECT_TRUE(step.exact);
}

TEST(Simulator, APipelineOfEqualStagesHasThePlannedBubble) {
  const ModelSize model = decoder(8, 1);  // a head that costs nothing
  for (const int64_t chunks : {1, 2}) {
    StepLayout layout{.pipeline = 4, .global_batch = 8, .micro_batch = 1};
    layout.chunks = chunks;
    const double planned = step_time(model, layout, computing()).total();
    EXPECT_NEAR(simulate_step(model, layout, computing()).seconds / planned, 1, 2e-3) << chunks;
  }
}

TEST(Simulator, StagesWaitForMessagesAsPlanned) {
  for (const int64_t pipeline : {2, 4}) {
    for (const int64_t micro_batches : {pipeline, 2 * pipeline, 4 * pipeline}) {
      for (const double node_bytes : {1e8, 3e8, 3e9}) {
        MachineRates rates = computing();
        rates.node_ranks = 1;
        rates.node_bytes = node_bytes;
        rates.messages_overlap = true;
        const ModelSize model = decoder(8, 1);
        const StepLayout layout{.pipeline = pipeline, .global_batch = micro_batches, .micro_batch = 1};
        const PlannedTime planned = step_time(model, layout, rates);
        EXPECT_NEAR(simulate_step(model, layout, rates).seconds / planned.total(), 1, 0.04)
            << pipeline << " stages, " << micro_batches << " micro-batches, " << node_bytes;
        EXPECT_GT(planned.stage_messages, 0);
      }
    }
  }
}

TEST(Simulator, AStageWithTheHeadDelaysTheOthersAsPlanned) {
  MachineRates rates = computing();
  rates.balanced_stages = rates.messages_overlap = true;
  const ModelSize model = decoder(12, 20000);  // a head of 7 layers
  const StepLayout layout{.pipeline = 2, .global_batch = 3, .micro_batch = 1};
  SimulationOptions options;
  options.part_layers = {9, 3};
  const double planned = step_time(model, layout, rates).total();
  EXPECT_NEAR(simulate_step(model, layout, rates, options).seconds / planned, 1, 0.03);
}

TEST(Simulator, StagesAddTheGradientsOfATiedMatrixAsPlanned) {
  MachineRates rates = computing();
  rates.node_ranks = 1;
  rates.node_bytes = 1e8;
  rates.messages_overlap = true;
  ModelSize model = decoder(4, 20000);
  const StepLayout layout{.pipeline = 2, .global_batch = 2, .micro_batch = 1};
  const double tied = simulate_step(model, layout, rates).seconds, planned = step_time(model, layout, rates).exchange;
  EXPECT_NEAR(planned, rates.tied_bytes * 20000 * 256 / 1e8, 1e-9);
  model.tied = false;
  EXPECT_NEAR(tied - simulate_step(model, layout, rates).seconds, planned, 1e-9);
}

TEST(Simulator, MessagesShareTheNetworkOfTheirNode) {
  const ModelSize model = decoder(4, 1);
  MachineRates rates = computing();
  rates.peak_flops = 1e30;  // only messages take time
  rates.memory_bytes = 1e30;
  rates.node_bytes = 1e6;
  // Stages of one replica are on two nodes with one, two and four replicas beside each other.
  double alone = 0;
  for (const int64_t data : {1, 2, 4}) {
    StepLayout layout{.data = data, .pipeline = 2, .global_batch = data, .micro_batch = 1};
    rates.node_ranks = data;
    rates.gradient_bytes = 1e-9;
    const double seconds = simulate_step(model, layout, rates).seconds;
    if (data == 1) alone = seconds;
    EXPECT_NEAR(seconds / alone, static_cast<double>(data), 1e-3);
  }
  EXPECT_NEAR(alone, 2 * 2.0 * 128 * 256 / 1e6 + 2 * 256 / 1e6, 1e-9) << "forward, backward and the tied matrix";
}

TEST(Simulator, TheExchangeOfGradientsTakesThePlannedTime) {
  const ModelSize model = decoder(4);
  for (const bool every : {false, true}) {
    for (const auto& [data, tensor] : {std::pair<int64_t, int64_t>{16, 1}, {4, 2}, {4, 1}}) {
      MachineRates rates = computing();
      rates.node_bytes = 1e8;
      rates.inner_bytes = 3e9;
      rates.every_rank_sends = every;
      const StepLayout layout{.data = data, .tensor = tensor, .global_batch = data, .micro_batch = 1};
      const double planned = step_time(model, layout, rates).total();
      EXPECT_NEAR(simulate_step(model, layout, rates).seconds / planned, 1, 1e-6) << data << " x " << tensor;
    }
  }
}

TEST(Simulator, AnOverlappedExchangeIsHiddenByTheLastBackward) {
  const ModelSize model = decoder(4);
  MachineRates rates = computing();
  rates.exchange_overlaps = true;
  rates.node_bytes = 1e9;
  const StepLayout layout{.data = 8, .global_batch = 8, .micro_batch = 1};
  const double with = simulate_step(model, layout, rates).seconds;
  rates.exchange_overlaps = false;
  const double after = simulate_step(model, layout, rates).seconds;
  rates.node_bytes = 1e30;
  rates.inner_bytes = 1e30;
  const double without = simulate_step(model, layout, rates).seconds;
  EXPECT_LT(with, after);
  EXPECT_GT(with, without);
}

TEST(Simulator, BucketsOfTheExchangeStartAsPlanned) {
  const ModelSize model = decoder(8, 2000);
  for (const double work : {0.0, 2e-9}) {
    for (const double node_bytes : {1e8, 1e9, 1e10}) {
      for (const double bucket : {1e5, 2e6, 1e9}) {
        MachineRates rates = computing();
        rates.node_ranks = 1;
        rates.exchange_overlaps = rates.embedding_apart = true;
        rates.node_bytes = node_bytes;
        rates.bucket_bytes = bucket;
        rates.node_work = work;
        const StepLayout layout{.data = 2, .global_batch = 8, .micro_batch = 1};
        const double planned = step_time(model, layout, rates).total();
        EXPECT_NEAR(simulate_step(model, layout, rates).seconds / planned, 1, 0.03)
            << node_bytes << ", " << bucket << ", " << work;
      }
    }
  }
}

TEST(Simulator, EqualRanksMayBeSimulatedOnce) {
  for (const auto& [data, tensor, pipeline, chunks] : {std::tuple<int64_t, int64_t, int64_t, int64_t>{8, 1, 1, 1},
                                                       {4, 1, 2, 1},
                                                       {4, 2, 2, 2},
                                                       {16, 1, 4, 1},
                                                       {8, 4, 2, 1},
                                                       {2, 8, 4, 1},
                                                       {64, 1, 1, 1}}) {
    for (const double node_bytes : {1e8, 1e10}) {
      MachineRates rates = computing();
      rates.inner_bytes = 5e9;
      rates.node_bytes = node_bytes;
      rates.every_rank_sends = true;
      rates.exchange_overlaps = true;
      StepLayout layout{.data = data, .tensor = tensor, .pipeline = pipeline, .global_batch = 8 * data};
      layout.chunks = chunks;
      const SimulatedStep exact = simulate_step(decoder(8), layout, rates);
      SimulationOptions options;
      options.exact_ranks = 1;
      const SimulatedStep classes = simulate_step(decoder(8), layout, rates, options);
      EXPECT_TRUE(exact.exact);
      EXPECT_FALSE(classes.exact);
      EXPECT_EQ(exact.groups, data * pipeline);
      EXPECT_EQ(classes.groups, pipeline);
      EXPECT_NEAR(classes.seconds / exact.seconds, 1, 0.01)
          << data << " x " << tensor << " x " << pipeline << ", " << node_bytes;
    }
  }
}

TEST(Simulator, ASlowRankDelaysAll) {
  const StepLayout layout{.data = 4, .global_batch = 16, .micro_batch = 1};
  MachineRates rates = computing();
  rates.update_bytes = 0;  // only what rank 0 computes slowly takes time
  SimulationOptions options;
  const SimulatedStep even = simulate_step(decoder(4), layout, rates, options);
  options.slow = 2;
  const SimulatedStep uneven = simulate_step(decoder(4), layout, rates, options);
  EXPECT_NEAR(uneven.seconds / even.seconds, 2, 1e-3);
  EXPECT_NEAR(uneven.idle, 0.5, 1e-3) << "of the three others";
  options.exact_ranks = 1;
  EXPECT_NEAR(simulate_step(decoder(4), layout, rates, options).seconds / uneven.seconds, 1, 1e-6);
}

TEST(Simulator, RecordsEveryAction) {
  SimulationOptions options;
  options.records = true;
  const StepLayout layout{.data = 2, .pipeline = 2, .global_batch = 8, .micro_batch = 1};
  const SimulatedStep step = simulate_step(decoder(4), layout, computing(), options);
  const auto count = [&](SimulatedEvent::Kind kind) {
    return std::ranges::count_if(step.events, [&](const SimulatedEvent& event) { return event.kind == kind; });
  };
  EXPECT_EQ(count(SimulatedEvent::Kind::forward), 2 * 2 * 4);
  EXPECT_EQ(count(SimulatedEvent::Kind::backward), 2 * 2 * 4);
  EXPECT_EQ(count(SimulatedEvent::Kind::message), 2 * 2 * 4);
  EXPECT_EQ(count(SimulatedEvent::Kind::exchange), 4);
  EXPECT_EQ(count(SimulatedEvent::Kind::update), 4);
  for (const SimulatedEvent& event : step.events) EXPECT_LE(event.start + event.seconds, step.seconds * (1 + 1e-9));
}

TEST(Simulator, FourThousandNodesTakeLessThanTenSeconds) {
  MachineRates rates = trireme_rates(node_type("azure-hb176rs-v4"), 1, {});
  const ModelSize model{.layers = 96, .width = 12288, .heads = 96, .sequence = 2048, .vocabulary = 51200};
  const StepLayout layout{.data = 64, .tensor = 4, .pipeline = 16, .global_batch = 64 * 256, .micro_batch = 1};
  ASSERT_EQ(layout.ranks(), 4096);
  const std::clock_t start = std::clock();
  const SimulatedStep step = simulate_step(model, layout, rates);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 10);
  EXPECT_NEAR(step.seconds / step_time(model, layout, rates).total(), 1, 0.15);
}

TEST(Simulator, RefusesWhatThePlanRefuses) {
  const StepLayout layout{.pipeline = 4, .chunks = 2, .global_batch = 6, .micro_batch = 1};
  EXPECT_ERROR(simulate_step(decoder(8), layout, computing()), ErrorKind::config, "multiple of the stages");
  EXPECT_ERROR(simulate_step(decoder(8), {}, {}), ErrorKind::config, "the peak of matrix products is 0");
}

TEST(PlanFailures, HasYoungsInterval) {
  const FailurePlan plan = plan_failures(10000, 100, 60, 300);
  EXPECT_DOUBLE_EQ(plan.failure_seconds, 360000);
  EXPECT_DOUBLE_EQ(plan.interval_seconds, std::sqrt(2 * 60 * 360000.0));
  const auto lost = [&](double interval) { return 60 / interval + (interval / 2 + 300) / 360000; };
  EXPECT_DOUBLE_EQ(plan.useful, 1 / (1 + lost(plan.interval_seconds)));
  for (const double other : {0.8, 1.25}) EXPECT_LT(lost(plan.interval_seconds), lost(other * plan.interval_seconds));
}

}  // namespace
}  // namespace trireme
