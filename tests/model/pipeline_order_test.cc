#include "model/pipeline_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "tests/support/expect_error.h"

namespace trireme {
namespace {

constexpr auto kForward = PipelinePass::forward, kBackward = PipelinePass::backward;

/// Calls f(stages, chunks, micro_batches) for every pipeline that the program takes, up to 8 x 3 x 16.
template <class F>
void for_each_pipeline(F f) {
  for (int64_t stages = 1; stages <= 8; ++stages)
    for (int64_t chunks = 1; chunks <= 3; ++chunks)
      for (int64_t micro_batches = 1; micro_batches <= 16; ++micro_batches)
        if (chunks == 1 || micro_batches % stages == 0) f(stages, chunks, micro_batches);
}

std::string name_of(int64_t stages, int64_t chunks, int64_t micro_batches) {
  return fmt::format("{} stages, {} chunks, {} micro-batches", stages, chunks, micro_batches);
}

/// All stages at once. A message has arrived once its send and its receive have both begun; no stage waits for a send,
/// but
/// a stage begins the next send to the same neighbour only when the one before has gone, and begins the receive of an
/// action when it begins the action before it. Forward takes 1, backward 2, messages nothing.
class Simulation {
 public:
  Simulation(int64_t stages, int64_t chunks, int64_t micro_batches) : stages_(stages), parts_(stages * chunks) {
    for (int64_t s = 0; s < stages; ++s) orders_.push_back(pipeline_order(s, stages, chunks, micro_batches));
    next_.assign(orders_.size(), 0);
    free_at_.assign(orders_.size(), 0);
  }

  /// Time at which the last stage ends; -1: they wait for each other for ever.
  int64_t run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int64_t s = 0; s < stages_; ++s) {
        while (advance(s)) moved = true;
      }
    }
    for (size_t s = 0; s < orders_.size(); ++s) {
      if (next_[s] < orders_[s].size()) return -1;
    }
    return *std::max_element(free_at_.begin(), free_at_.end());
  }

 private:
  using Key = std::tuple<PipelinePass, int64_t, int64_t>;  ///< pass, part of the model that takes it, micro-batch

  int64_t part_of(int64_t stage, const PipelineAction& action) const { return action.chunk * stages_ + stage; }
  bool receives(int64_t stage, const PipelineAction& action) const {
    return action.pass == kForward ? part_of(stage, action) > 0 : part_of(stage, action) < parts_ - 1;
  }
  std::optional<Key> sent_by(int64_t stage, const PipelineAction& action) const {
    const int64_t to = part_of(stage, action) + (action.pass == kForward ? 1 : -1);
    if (to < 0 || to == parts_) return {};
    return Key{action.pass, to, action.micro_batch};
  }
  /// When the receive of an action begins, if it has: with the action before it.
  std::optional<int64_t> receive_begun(const Key& key) const {
    const auto [pass, part, micro_batch] = key;
    const auto stage = static_cast<size_t>(part % stages_);
    const auto& order = orders_[stage];
    const auto at = static_cast<size_t>(
        std::find(order.begin(), order.end(), PipelineAction{pass, part / stages_, micro_batch}) - order.begin());
    if (at > next_[stage]) return {};
    const auto before = begun_.find({static_cast<int64_t>(stage), at == 0 ? 0 : at - 1});
    return at == 0 ? 0 : before->second;
  }

  bool advance(int64_t stage) {
    const auto index = static_cast<size_t>(stage);
    if (next_[index] == orders_[index].size()) return false;
    const PipelineAction action = orders_[index][next_[index]];
    int64_t start = free_at_[index];
    if (receives(stage, action)) {
      const auto sent = sent_at_.find({action.pass, part_of(stage, action), action.micro_batch});
      if (sent == sent_at_.end()) return false;
      start = std::max(start, sent->second);
    }
    if (const auto message = sent_by(stage, action)) {
      auto& last = last_sent_[{stage, action.pass}];
      if (last) {
        const auto taken = receive_begun(*last);
        if (!taken) return false;
        start = std::max(start, *taken);
      }
      last = message;
    }
    begun_[{stage, next_[index]}] = start;
    free_at_[index] = start + (action.pass == kForward ? 1 : 2);
    if (const auto message = sent_by(stage, action)) sent_at_[*message] = free_at_[index];
    ++next_[index];
    return true;
  }

  int64_t stages_, parts_;
  std::vector<std::vector<PipelineAction>> orders_;
  std::vector<size_t> next_;
  std::vector<int64_t> free_at_;
  std::map<Key, int64_t> sent_at_;
  std::map<std::pair<int64_t, size_t>, int64_t> begun_;
  std::map<std::pair<int64_t, PipelinePass>, std::optional<Key>> last_sent_;
};

TEST(PipelineOrder, KeepsBatchesForAllForwardsInFlight) {
  EXPECT_EQ(forwards_kept(pipeline_order(0, 1, 1, 3)), 1);
  for (int64_t stage = 0; stage < 4; ++stage) {
    const auto order = pipeline_order(stage, 4, 1, 8);
    EXPECT_EQ(forwards_kept(order), slots_of(order, 0));
  }
  // The first of two stages runs F 0 1 of chunk 0, F 0 1 of chunk 1, F 2 of chunk 0 before backward of chunk 1, and so
  // on: chunk 0's first backward comes after F 0 1 2 3, 0 1 2.
  const auto order = pipeline_order(0, 2, 2, 4);
  EXPECT_EQ(slots_of_chunks(order, 2), (std::vector<int64_t>{slots_of(order, 0), slots_of(order, 1)}));
  int64_t forwards = 0;
  for (const PipelineAction& action : order) {
    if (action == PipelineAction{kBackward, 0, 0}) break;
    forwards += action.pass == kForward ? 1 : 0;
  }
  EXPECT_EQ(forwards_kept(order), forwards);
}

TEST(PipelineOrder, OneStageRunsEachMicroBatchThroughBeforeTheNext) {
  const std::vector<PipelineAction> expected = {{kForward, 0, 0},  {kBackward, 0, 0}, {kForward, 0, 1},
                                                {kBackward, 0, 1}, {kForward, 0, 2},  {kBackward, 0, 2}};
  EXPECT_EQ(pipeline_order(0, 1, 1, 3), expected);
  EXPECT_TRUE(pipeline_order(0, 1, 1, 0).empty());
}

TEST(PipelineOrder, FillsThePipelineThenTakesTurns) {
  const std::vector<PipelineAction> expected = {{kForward, 0, 0},  {kForward, 0, 1}, {kForward, 0, 2},
                                                {kBackward, 0, 0}, {kForward, 0, 3}, {kBackward, 0, 1},
                                                {kBackward, 0, 2}, {kBackward, 0, 3}};
  EXPECT_EQ(pipeline_order(0, 3, 1, 4), expected);
}

TEST(PipelineOrder, ChunksAlternateAfterOneMicroBatchPerStage) {
  const auto order = pipeline_order(1, 2, 2, 4);  // of figure 4 of the source: the second of two devices
  std::vector<std::pair<int64_t, int64_t>> forward, backward;
  for (const PipelineAction& action : order)
    (action.pass == kForward ? forward : backward).emplace_back(action.chunk, action.micro_batch);
  using Pairs = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(forward, (Pairs{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}}));
  EXPECT_EQ(backward, (Pairs{{1, 0}, {1, 1}, {0, 0}, {0, 1}, {1, 2}, {1, 3}, {0, 2}, {0, 3}}));
}

TEST(PipelineOrder, RunsEveryMicroBatchOfEveryChunkOnceForwardThenBackward) {
  for_each_pipeline([](int64_t stages, int64_t chunks, int64_t micro_batches) {
    for (int64_t stage = 0; stage < stages; ++stage) {
      const auto order = pipeline_order(stage, stages, chunks, micro_batches);
      ASSERT_EQ(static_cast<int64_t>(order.size()), 2 * chunks * micro_batches);
      std::vector<int64_t> forwards(static_cast<size_t>(chunks)), backwards(forwards);
      for (const PipelineAction& action : order) {
        auto& done = (action.pass == kForward ? forwards : backwards)[static_cast<size_t>(action.chunk)];
        ASSERT_EQ(action.micro_batch, done++) << name_of(stages, chunks, micro_batches);  // ascending, so once
        if (action.pass == kBackward) {
          ASSERT_LT(action.micro_batch, forwards[static_cast<size_t>(action.chunk)])
              << name_of(stages, chunks, micro_batches);
        }
      }
    }
  });
}

TEST(PipelineOrder, KeepsOnlyTheMicroBatchesThatFillThePipeline) {
  for_each_pipeline([](int64_t stages, int64_t chunks, int64_t micro_batches) {
    for (int64_t stage = 0; stage < stages; ++stage) {
      const auto order = pipeline_order(stage, stages, chunks, micro_batches);
      int64_t now = 0, most = 0, slots = 0;
      for (const PipelineAction& action : order) {
        now += action.pass == kForward ? 1 : -1;
        most = std::max(most, now);
      }
      const int64_t behind = stages - stage - 1;
      const int64_t expected = chunks == 1 ? behind + 1 : 2 * behind + (chunks - 1) * stages + 1;
      EXPECT_EQ(most, std::min(expected, chunks * micro_batches)) << name_of(stages, chunks, micro_batches);
      for (int64_t c = 0; c < chunks; ++c) slots += slots_of(order, c);
      EXPECT_GE(slots, most);
      EXPECT_LE(slots, most + stages * (chunks - 1)) << name_of(stages, chunks, micro_batches);
    }
  });
}

TEST(PipelineOrder, ASlotIsFreeWhenTheOrderComesBackToIt) {
  for_each_pipeline([](int64_t stages, int64_t chunks, int64_t micro_batches) {
    for (int64_t stage = 0; stage < stages; ++stage) {
      const auto order = pipeline_order(stage, stages, chunks, micro_batches);
      std::map<std::pair<int64_t, int64_t>, int64_t> taken;  // (chunk, slot): micro-batch
      for (const PipelineAction& action : order) {
        const std::pair slot{action.chunk, action.micro_batch % slots_of(order, action.chunk)};
        if (action.pass == kForward) {
          ASSERT_TRUE(taken.emplace(slot, action.micro_batch).second) << name_of(stages, chunks, micro_batches);
        } else {
          ASSERT_EQ(taken.at(slot), action.micro_batch);
          taken.erase(slot);
        }
      }
    }
  });
}

TEST(PipelineOrder, NeverDeadlocksWhenMessagesNeedBothSides) {
  for_each_pipeline([](int64_t stages, int64_t chunks, int64_t micro_batches) {
    ASSERT_GT(Simulation(stages, chunks, micro_batches).run(), 0) << name_of(stages, chunks, micro_batches);
  });
}

TEST(PipelineOrder, IdlesNoLongerThanTheFormulaOfTheSource) {
  for_each_pipeline([](int64_t stages, int64_t chunks, int64_t micro_batches) {
    if (micro_batches < stages) return;
    // In units of one chunk's forward: each stage works 3 per chunk and micro-batch, the bubble is stages - 1 of them.
    EXPECT_EQ(Simulation(stages, chunks, micro_batches).run(), 3 * chunks * micro_batches + 3 * (stages - 1))
        << name_of(stages, chunks, micro_batches);
  });
}

TEST(PipelineOrder, RefusesMicroBatchesThatCannotBeInterleaved) {
  EXPECT_ERROR(
      pipeline_order(0, 4, 2, 6), ErrorKind::config,
      "6 micro-batches cannot be interleaved over 4 stages with 2 chunks each: their number must be a multiple "
      "of the stages, such as 4 or 8; or use one chunk");
  EXPECT_ERROR(pipeline_order(0, 4, 2, 3), ErrorKind::config, "such as 4;");
}

// Messages of a pass between two stages have no tags (train/stage_links): both must have them in one order.
TEST(PipelineOrder, EveryStageReceivesInTheOrderInWhichItsNeighbourSends) {
  for_each_pipeline([](int64_t stages, int64_t chunks, int64_t micro_batches) {
    if (stages == 1) return;
    SCOPED_TRACE(name_of(stages, chunks, micro_batches));
    for (const PipelinePass pass : {kForward, kBackward}) {
      const int64_t step = pass == kForward ? 1 : -1, parts = stages * chunks;
      /// The parts of the model that take a stage's messages, and their micro-batches: as sent, as received.
      const auto messages = [&](int64_t stage, bool sends) {
        std::vector<std::pair<int64_t, int64_t>> list;
        for (const PipelineAction& action : pipeline_order(stage, stages, chunks, micro_batches)) {
          const int64_t part = action.chunk * stages + stage, taker = sends ? part + step : part;
          if (action.pass != pass || taker < 0 || taker >= parts ||
              (!sends && (part - step < 0 || part - step >= parts)))
            continue;
          list.emplace_back(taker, action.micro_batch);
        }
        return list;
      };
      for (int64_t stage = 0; stage < stages; ++stage) {
        const int64_t next = (stage + step + stages) % stages;
        EXPECT_EQ(messages(stage, true), messages(next, false)) << "from stage " << stage;
      }
    }
  });
}

}  // namespace
}  // namespace trireme
