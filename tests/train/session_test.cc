// Sessions over ranks that are threads, and a run that continues with another session.

#include "train/session.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <optional>
#include <vector>

#include "tests/train/trainee.h"

namespace trireme {
namespace {

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

TEST(Session, OfOneRankResumesOnTwoWithTwiceTheMicroBatches) {
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

TEST(Session, AHundredOfThemLeakNothing) {
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

}  // namespace
}  // namespace trireme
