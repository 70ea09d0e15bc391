// Steps over ranks that are threads: what they compute, their verdicts, what they ask each other.

#include "train/step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <mutex>

#include "comm/agreement.h"
#include "model/mesh_layout.h"
#include "tests/train/trainee.h"

namespace trireme {
namespace {

TEST(TrainStep, EveryRankLearnsOfAStopRequestAndAnUnfinishedSave) {
  run_local(3, [](RankContext& rank) {
    Trainee trainee(DType::f32);
    StepResult result = trainee.train(rank, 1, 1);
    EXPECT_FALSE(result.stop);
    EXPECT_TRUE(result.saved);
    rank.stop_requested = [&rank] { return rank.rank() == 1; };
    trainee.saved = rank.rank() != 2;
    result = trainee.train(rank, 1, 1);
    EXPECT_TRUE(result.stop);
    EXPECT_FALSE(result.saved);
  });
}

TEST(TrainStep, ChangesNoWeightWhenTheLossIsAboveTheLimitOrNotFinite) {
  run_local(2, [](RankContext& rank) {
    Trainee trainee(DType::f32);
    trainee.train(rank, 1, 4);
    const auto before = trainee.weights();
    const StepResult spike = trainee.train(rank, 1, 4, 1e-3);
    EXPECT_TRUE(spike.skipped);
    EXPECT_TRUE(spike.finite);
    EXPECT_EQ(trainee.weights(), before);
    // One rank alone computes nonsense; both skip.
    const float value = trainee.state().weights().values<float>()[0];
    if (rank.rank() == 1) trainee.state().weights().values<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    const StepResult result = trainee.train(rank, 1, 4);
    EXPECT_TRUE(result.skipped);
    EXPECT_FALSE(result.finite);
    trainee.state().weights().values<float>()[0] = value;
    EXPECT_EQ(trainee.weights(), before);
  });
}

TEST(TrainStep, AsksTheOtherRanksOnceBesideTheExchange) {
  std::mutex mutex;
  std::map<std::string, int> calls;  // of rank 0's main thread on the world
  LocalOptions options;
  options.delay = [&](const LocalCall& call) {
    if (call.rank == 0) {
      const std::lock_guard lock(mutex);
      ++calls[std::string(call.name)];
    }
    return std::chrono::microseconds(0);
  };
  std::array<std::map<std::string, int>, 2> of{};
  for (const int64_t steps : {1, 2}) {
    calls.clear();
    run_local(
        2, [&](RankContext& rank) { Trainee(DType::f32).train(rank, steps, 4); }, options);
    of[static_cast<size_t>(steps - 1)] = calls;
  }
  const auto more = [&](const char* name) { return of[1][name] - of[0][name]; };
  EXPECT_EQ(more("all_reduce"), 1);  // the verdict; the rows that were touched travel by messages of the exchange
  EXPECT_EQ(more("all_gather"), 0);
  EXPECT_EQ(more("broadcast"), 0);
  EXPECT_EQ(more("barrier"), 0);
}

/// Adam's direction of a gradient near zero is not its sign.
OptimizerOptions steady() {
  OptimizerOptions options;
  options.adamw.epsilon = 1e-3f;
  return options;
}

/// Sessions, data and one step of a rank, with every option open.
struct OneStep {
  OneStep(const RankContext& rank, const BatchShape& batch, const MeshShape& mesh, uint64_t data_seed = 3,
          LossMean mean = LossMean::tokens)
      : table(tiny_spec(), InitScheme::gpt2, layout_of(tiny_spec(), mesh, rank.rank())),
        state(table, DType::f32, true),
        made(Session::make({.spec = tiny_spec(),
                            .dtype = DType::f32,
                            .shape = {.rows = batch.largest_micro() * batch.sequence},
                            .mesh = mesh,
                            .optimizer = steady()},
                           table, state, *backend.ops, rank)),
        session(*made),
        windows(tokens, data_seed),
        batches(windows, batch),
        step(session, batches, 7, mean) {
    initialize(state, table, 5);
  }
  StepResult run(double rate = 1e-2) {
    return step.run({.step = 0, .consumed = 0, .update = 1, .learning_rate = rate, .most_loss = kNoLimit});
  }
  std::vector<float> weights() const {
    const auto values = state.weights().values<float>();
    return {values.begin(), values.end()};
  }

  Backend backend = make_backend();
  ParameterTable table;
  TrainingState state;
  std::vector<uint16_t> tokens = some_tokens();
  std::unique_ptr<Session> made;
  Session& session;
  WindowSource windows;
  SampleBatches batches;
  TrainStep step;
};

TEST(TrainStep, ItsLossIsTheMeanOverTheGlobalBatchHoweverThatIsDivided) {
  double whole = 0;
  std::vector<float> weights;
  run_local(1, [&](RankContext& rank) {
    OneStep one(rank, {.global = 6, .micro_batches = 1, .sequence = kSequence}, {.data = 1});
    EXPECT_NEAR(one.run().loss, std::log(13.0), 0.1) << "an untrained model";
    OneStep again(rank, {.global = 6, .micro_batches = 1, .sequence = kSequence}, {.data = 1});
    whole = again.run().loss;
    weights = again.weights();
  });
  // Six samples on four ranks: two have one sample less, and no padding counts.
  for (const int ranks : {2, 3, 4}) {
    run_local(ranks, [&](RankContext& rank) {
      OneStep part(rank,
                   {.global = 6,
                    .micro_batches = ranks == 2 ? 3 : 2,
                    .sequence = kSequence,
                    .ranks = ranks,
                    .rank = rank.rank()},
                   {.data = ranks});
      EXPECT_NEAR(part.run().loss, whole, 1e-6) << ranks;
      const std::vector<float> own = part.weights();
      for (size_t i = 0; i < own.size(); ++i) ASSERT_NEAR(own[i], weights[i], 2e-3) << ranks << " ranks, weight " << i;
    });
  }
}

TEST(TrainStep, ARateOfZeroChangesNoWeight) {
  run_local(2, [](RankContext& rank) {
    OneStep one(rank, {.global = 4, .sequence = kSequence, .ranks = 2, .rank = rank.rank()}, {.data = 2});
    const std::vector<float> before = one.weights();
    EXPECT_FALSE(one.run(0).skipped);
    EXPECT_EQ(one.weights(), before);
  });
}

TEST(TrainStep, RanksThatShareABatchAndReadOtherTokensStopBeforeAnyWeightChanges) {
  run_local(2, [](RankContext& rank) {
    OneStep one(rank, {.global = 4, .sequence = kSequence}, {.data = 1, .tensor = 2}, rank.rank() == 1 ? 4 : 3);
    const std::vector<float> before = one.weights();
    try {
      one.run();
      ADD_FAILURE() << "the tokens differ";
    } catch (const CommonError& error) {
      EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(ErrorKind::mismatch));
      EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("rank 1"), testing::HasSubstr("rank 0")));
    }
    EXPECT_EQ(one.weights(), before);
  });
}

TEST(TrainStep, AMeanOfMicroBatchesWeighsEachAlike) {
  run_local(1, [](RankContext& rank) {
    const BatchShape batch{.global = 4, .micro_batches = 2, .sequence = kSequence};
    OneStep tokens(rank, batch, {.data = 1}), means(rank, batch, {.data = 1}, 3, LossMean::micro_batches);
    // All sequences have one length: both are the same mean.
    EXPECT_NEAR(tokens.run().loss, means.run().loss, 1e-9);
  });
}

TEST(Evaluate, IsTheSameNumberOnEveryRankAndOnOne) {
  double whole = 0;
  run_local(1, [&](RankContext& rank) {
    OneStep one(rank, {.global = 5, .sequence = kSequence}, {.data = 1});
    whole = evaluate(one.session, one.windows, {.global = 5, .sequence = kSequence}, 3).value();
  });
  run_local(3, [&](RankContext& rank) {
    const BatchShape batch{.global = 5, .sequence = kSequence, .ranks = 3, .rank = rank.rank()};
    OneStep part(rank, batch, {.data = 3});
    EXPECT_NEAR(evaluate(part.session, part.windows, batch, 3).value(), whole, 1e-7);
  });
}

TEST(Evaluate, GivesNothingOnAnyRankOnceOneIsAskedToStop) {
  run_local(2, [](RankContext& rank) {
    const BatchShape batch{.global = 4, .sequence = kSequence, .ranks = 2, .rank = rank.rank()};
    rank.stop_requested = [&] { return rank.rank() == 1; };
    OneStep one(rank, batch, {.data = 2});
    EXPECT_FALSE(evaluate(one.session, one.windows, batch, 3));
  });
}

}  // namespace
}  // namespace trireme
