// Sessions over ranks that are threads: steps, verdicts, and a run that goes on with another session.

#include "train/session.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>

#include "tests/support/local_ranks.h"
#include "tests/support/tiny_model.h"
#include "train/step.h"

namespace trireme {
namespace {

constexpr int64_t kGlobal = 8, kSequence = 8;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

Spec dropping_spec() {
  Spec spec = tiny_spec();
  spec.embedding_dropout = spec.attention_dropout = spec.residual_dropout = 0.2f;
  return spec;
}

std::vector<uint16_t> some_tokens() {
  std::vector<uint16_t> tokens(500);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint16_t>(i * i % 13);
  return tokens;
}

/// What of a run survives its sessions, on one rank.
class Trainee {
 public:
  explicit Trainee(DType wire, const Spec& spec = dropping_spec())
      : spec_(spec), table_(spec), state_(table_, DType::f32, true), wire_(wire) {
    initialize(state_, table_, 5);
  }
  Trainee(const Trainee& other) : Trainee(other.wire_, other.spec_) {
    steps_ = other.steps_;
    const auto [weights, remainder, moment1, moment2] = state_.replicated();
    for (const auto& [from, to] : {std::pair<ConstView, View>{other.state_.weights(), weights},
                                   std::pair<ConstView, View>{other.state_.moment1(), moment1},
                                   std::pair<ConstView, View>{other.state_.moment2(), moment2}})
      std::memcpy(to.data(), from.data(), from.bytes());
  }

  /// So many more steps over a new session, in micro-batches of `micro` samples. The last step's result.
  StepResult train(const RankContext& rank, int64_t count, int64_t micro, double most_loss = kNoLimit) {
    const Backend backend = make_backend();
    OptimizerOptions options;
    options.wire = wire_;
    Session session({.spec = spec_,
                     .dtype = DType::f32,
                     .shape = {.rows = micro * kSequence},
                     .mesh = {.data = rank.size()},
                     .optimizer = options},
                    table_, state_, *backend.ops, rank);
    const WindowSource windows(tokens_, 3);
    SampleBatches batches(windows, {.global = kGlobal,
                                    .micro_batches = kGlobal / rank.size() / micro,
                                    .sequence = kSequence,
                                    .ranks = rank.size(),
                                    .rank = rank.rank()});
    TrainStep step(session, batches, 7);
    StepResult result;
    for (int64_t i = 0; i < count; ++i, ++steps_)
      result = step.run({.step = steps_,
                         .consumed = static_cast<uint64_t>(steps_ * kGlobal),
                         .update = steps_ + 1,
                         .learning_rate = 1e-2,
                         .most_loss = most_loss,
                         .saved = saved});
    return result;
  }

  std::vector<float> weights() const {
    const auto values = state_.weights().values<float>();
    return {values.begin(), values.end()};
  }
  TrainingState& state() { return state_; }

  bool saved = true;

 private:
  Spec spec_;
  ParameterTable table_;
  TrainingState state_;
  DType wire_;
  std::vector<uint16_t> tokens_ = some_tokens();
  int64_t steps_ = 0;
};

/// Weights of rank 0 after sessions of so many steps each.
std::vector<float> weights_after(int ranks, DType wire, const std::vector<int64_t>& sessions) {
  std::vector<float> weights;
  run_local(ranks, [&](RankContext& rank) {
    Trainee trainee(wire);
    for (const int64_t steps : sessions) trainee.train(rank, steps, kGlobal / 2 / rank.size());
    if (rank.rank() == 0) weights = trainee.weights();
  });
  return weights;
}

size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST(Session, MadeAgainInTheMiddleOfARunGivesTheSameBits) {
  for (const int ranks : {1, 2, 4}) {
    SCOPED_TRACE(ranks);
    const auto whole = weights_after(ranks, DType::bf16, {8});
    EXPECT_EQ(weights_after(ranks, DType::bf16, {4, 4}), whole);
    EXPECT_EQ(weights_after(ranks, DType::bf16, {1, 3, 4}), whole);
    EXPECT_NE(weights_after(ranks, DType::bf16, {7}), whole);
  }
}

TEST(Session, OfOneRankGoesOnForTwoWithTwiceTheMicroBatches) {
  std::optional<Trainee> half, whole;
  run_local(2, [&](RankContext& rank) {
    Trainee trainee(DType::f32);
    trainee.train(rank, 4, kGlobal / 2);
    if (rank.rank() == 0) half.emplace(trainee);
    trainee.train(rank, 4, kGlobal / 2);
    if (rank.rank() == 0) whole.emplace(trainee);
  });
  run_local(1, [&](RankContext& rank) { half->train(rank, 4, kGlobal / 2); });
  EXPECT_EQ(half->weights(), whole->weights());
}

TEST(Session, AHundredOfThemLeaveNothingBehind) {
  LocalOptions options;
  options.live = std::make_shared<std::atomic<int64_t>>(0);
  run_local(
      2,
      [&](RankContext& rank) {
        Trainee trainee(DType::bf16);
        trainee.train(rank, 1, 4);
        rank.world.barrier().wait("the other rank");
        const int64_t live = *options.live;
        const size_t resident = resident_bytes();
        for (int i = 0; i < 100; ++i) trainee.train(rank, 1, 4);
        rank.world.barrier().wait("the other rank");
        EXPECT_LE(*options.live, live + 2);  // this barrier itself may not be cleared away yet
        EXPECT_LT(resident_bytes(), resident + (size_t{48} << 20)) << "a session holds about 4 MB here";
      },
      options);
  EXPECT_EQ(*options.live, 0);
}

TEST(TrainStep, TellsEveryRankThatOneWasAskedToStopOrIsStillSaving) {
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
  EXPECT_EQ(more("all_gather"), 2);  // the rows that were touched travel in the exchange; the verdict
  EXPECT_EQ(more("all_reduce"), 0);
  EXPECT_EQ(more("broadcast"), 0);
  EXPECT_EQ(more("barrier"), 0);
}

}  // namespace
}  // namespace trireme
