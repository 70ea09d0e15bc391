// What travels between pipeline stages, with doubles in place of their parts of the model; ranks as threads.

#include "train/stage_links.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "base/time.h"
#include "tests/support/exchange.h"
#include "tests/support/local_ranks.h"

namespace trireme {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kWidth = 3;

/// Of the message that a part of the model takes of a micro-batch.
float value_of(PipelinePass pass, int64_t part, int64_t micro_batch) {
  return static_cast<float>((pass == PipelinePass::forward ? 1 : 2) * 10000 + part * 100 + micro_batch);
}

/// Rows of a micro-batch; every fifth has none.
int64_t rows_of(int64_t micro_batch) { return micro_batch % 5 == 4 ? 0 : 1 + micro_batch % 2; }

void take_and_hand_on(StageLinks& links, const PipelineAction& action) {
  const int64_t rows = rows_of(action.micro_batch), part = action.chunk * links.stages() + links.stage(),
                parts = links.chunks() * links.stages();
  const bool forward = action.pass == PipelinePass::forward;
  const View in = links.receive_input(action, rows), out = links.output_buffer(action, rows);
  EXPECT_EQ(in.empty(), forward ? part == 0 : part + 1 == parts);
  EXPECT_EQ(out.empty(), forward ? part + 1 == parts : part == 0);
  if (!in.empty()) {
    for (const float x : in.values<float>()) EXPECT_EQ(x, value_of(action.pass, part, action.micro_batch));
  }
  if (!out.empty()) {
    const int64_t to = forward ? part + 1 : part - 1;
    std::ranges::fill(out.values<float>(), value_of(action.pass, to, action.micro_batch));
  }
  links.send_output(action, rows);
}

TEST(StageLinks, AWaitNamesTheMicroBatchAndWhereItComesFrom) {
  std::atomic<bool> seen = false;
  run_local(3, [&](RankContext& rank) {
    StageLinks links(rank.world, *test_ops(), 1, DType::f32, 2, kWidth, {});
    const PipelineAction action{PipelinePass::backward, 0, 3};
    std::jthread watcher;
    if (rank.rank() == 2) {
      while (!seen) std::this_thread::sleep_for(1ms);
    } else if (rank.rank() == 1) {
      links.post_receive(action, 1);
      watcher = std::jthread([&, of = rank.heartbeat] {
        while (of->state().collective.empty()) std::this_thread::sleep_for(1ms);
        EXPECT_EQ(of->state().collective, "gradients of micro-batch 4 from pipeline 2");
        seen = true;
      });
    }
    if (rank.rank() == 0) links.post_receive(action, 1);
    (void)links.receive_input(action, 1);
    (void)links.output_buffer(action, 1);
    links.send_output(action, 1);
    links.flush();
  });
}

// Sends that wait for their receives, and calls that end late.
TEST(StageLinks, NoOrderOfAnyPipelineDeadlocks) {
  uint64_t seed = 0;
  for (int stages = 2; stages <= 8; ++stages)
    for (int64_t chunks = 1; chunks <= 3; ++chunks)
      for (int64_t micro_batches = 1; micro_batches <= 16; ++micro_batches) {
        if (chunks > 1 && micro_batches % stages != 0) continue;
        SCOPED_TRACE(testing::Message() << stages << " stages, " << chunks << " chunks, " << micro_batches
                                        << " micro-batches");
        const LocalOptions options{.delay = random_delays(++seed, 100us), .rendezvous = true};
        run_local(
            stages,
            [&](RankContext& rank) {
              StageLinks links(rank.world, *test_ops(), chunks, DType::f32, 2, kWidth, {});
              run_in_order(links, pipeline_order(rank.rank(), stages, chunks, micro_batches), rows_of,
                           [&](const PipelineAction& action) { take_and_hand_on(links, action); });
            },
            options, 60s);
      }
}

// Tags come round again; a communicator refuses those above what every MPI takes.
TEST(StageLinks, AStepMayHaveMoreMicroBatchesThanTags) {
  constexpr int64_t kMicroBatches = 9'000, kChunks = 2;
  run_local(2, [&](RankContext& rank) {
    StageLinks links(rank.world, *test_ops(), kChunks, DType::f32, 2, kWidth, {});
    run_in_order(links, pipeline_order(rank.rank(), 2, kChunks, kMicroBatches), rows_of,
                 [&](const PipelineAction& action) { take_and_hand_on(links, action); });
  });
}

// Activations once forward and their gradients once back, between all parts of the model.
TEST(StageLinks, SendActivationsOnceEachWay) {
  for (const int64_t chunks : {1, 2}) {
    constexpr int kStages = 3;
    constexpr int64_t kMicroBatches = 6;
    uint64_t sent = 0, rows = 0;
    std::mutex mutex;
    for (int64_t m = 0; m < kMicroBatches; ++m) rows += static_cast<uint64_t>(rows_of(m));
    run_local(kStages, [&](RankContext& rank) {
      StageLinks links(rank.world, *test_ops(), chunks, DType::f32, 2, kWidth, {});
      run_in_order(links, pipeline_order(rank.rank(), kStages, chunks, kMicroBatches), rows_of,
                   [&](const PipelineAction& action) { take_and_hand_on(links, action); });
      const std::lock_guard lock(mutex);
      sent += links.bytes_sent();
    });
    EXPECT_EQ(sent, 2 * static_cast<uint64_t>(kStages * chunks - 1) * rows * kWidth * sizeof(float));
  }
}

/// Share of the time in which a stage does nothing until the last one is done, where a backward takes twice as long as
/// a forward and messages no time. Each stage has a clock of its own; an action's end is what it hands on.
double idle_share(int stages, int64_t chunks, int64_t micro_batches) {
  constexpr float kForward = 1, kBackward = 2;
  float end = 0;
  std::mutex mutex;
  run_local(stages, [&](RankContext& rank) {
    StageLinks links(rank.world, *test_ops(), chunks, DType::f32, 1, 1, {});
    float clock = 0;
    const auto act = [&](const PipelineAction& action) {
      const ConstView in = links.receive_input(action, 1);
      if (!in.empty()) clock = std::max(clock, in.as<float>()[0]);
      clock += action.pass == PipelinePass::forward ? kForward : kBackward;
      const View out = links.output_buffer(action, 1);
      if (!out.empty()) out.as<float>()[0] = clock;
      links.send_output(action, 1);
    };
    run_in_order(
        links, pipeline_order(rank.rank(), stages, chunks, micro_batches), [](int64_t) { return 1; }, act);
    const std::lock_guard lock(mutex);
    end = std::max(end, clock);
  });
  return 1 - static_cast<double>(static_cast<float>(chunks * micro_batches) * (kForward + kBackward) / end);
}

TEST(StageLinks, BubblesAreThoseOfTheFormula) {
  const struct {
    int stages;
    int64_t chunks, micro_batches;
  } pipelines[] = {{1, 1, 4}, {2, 1, 4}, {4, 1, 8}, {4, 2, 8}, {4, 3, 4}, {2, 2, 4}, {3, 2, 9}};
  for (const auto& [stages, chunks, micro_batches] : pipelines) {
    const double p = stages, v = static_cast<double>(chunks), m = static_cast<double>(micro_batches);
    EXPECT_NEAR(idle_share(stages, chunks, micro_batches), (p - 1) / (v * m + p - 1), 1e-6)
        << stages << " stages, " << chunks << " chunks, " << micro_batches << " micro-batches";
  }
}

}  // namespace
}  // namespace trireme
