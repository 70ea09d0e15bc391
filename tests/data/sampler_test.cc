#include "data/sampler.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

#include "tests/support/expect_error.h"

namespace trireme {
namespace {

TEST(WindowStart, IsAPureFunctionOfSeedStreamAndIndex) {
  std::vector<uint64_t> forward, backward;
  for (uint64_t i = 0; i < 100; ++i) forward.push_back(window_start(7, SampleStream::training, i, 1000, 64));
  for (uint64_t i = 100; i-- > 0;) backward.push_back(window_start(7, SampleStream::training, i, 1000, 64));
  EXPECT_EQ(forward, std::vector<uint64_t>(backward.rbegin(), backward.rend()));
}

TEST(WindowStart, DiffersBetweenSeedsAndStreams) {
  int same_seed = 0, same_stream = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    const uint64_t start = window_start(7, SampleStream::training, i, 1u << 30, 64);
    same_seed += start == window_start(8, SampleStream::training, i, 1u << 30, 64);
    same_stream += start == window_start(7, SampleStream::evaluation, i, 1u << 30, 64);
  }
  EXPECT_EQ(same_seed, 0);
  EXPECT_EQ(same_stream, 0);
}

TEST(WindowStart, ReachesEveryStartAndNoneBeyond) {
  constexpr uint64_t kTokens = 20, kSequence = 12;
  std::vector<int> hits(kTokens - kSequence);
  for (uint64_t i = 0; i < 8000; ++i) {
    const uint64_t start = window_start(1, SampleStream::training, i, kTokens, kSequence);
    ASSERT_LT(start, kTokens - kSequence);
    ++hits[start];
  }
  for (const int n : hits) EXPECT_NEAR(n, 1000, 150);  // five standard deviations of a fair draw
}

TEST(WindowStart, TakesTheOnlyWindowOfAShortText) { EXPECT_EQ(window_start(1, SampleStream::training, 5, 65, 64), 0u); }

TEST(WindowStart, RefusesATextShorterThanOneSample) {
  EXPECT_ERROR(window_start(1, SampleStream::training, 0, 64, 64), ErrorKind::data,
               "64 tokens are fewer than one sample of 65");
  EXPECT_ERROR(window_start(1, SampleStream::training, 0, 0, 64), ErrorKind::data, "shorter --batch.sequence");
}

BatchSlice slice_of(uint64_t consumed, int64_t global, int ranks, int rank, int64_t micros, int64_t micro) {
  return batch_slice(consumed, {.global = global, .micro_batches = micros, .ranks = ranks, .rank = rank}, micro);
}

TEST(BatchSlice, CoversTheStepOnceInOrderForEveryWorldSize) {
  for (const int64_t global : {1, 7, 12, 64, 100}) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (int64_t micros = 1; micros <= 4; ++micros) {
        uint64_t next = 1000;
        for (int rank = 0; rank < ranks; ++rank) {
          for (int64_t micro = 0; micro < micros; ++micro) {
            const BatchSlice slice = slice_of(1000, global, ranks, rank, micros, micro);
            ASSERT_EQ(slice.first, next) << global << " " << ranks << " " << rank << " " << micro;
            next += static_cast<uint64_t>(slice.count);
          }
        }
        EXPECT_EQ(next, 1000 + static_cast<uint64_t>(global));
      }
    }
  }
}

TEST(BatchSlice, GivesTheEarlierOnesMoreWhenUneven) {
  EXPECT_EQ(slice_of(0, 8, 3, 0, 1, 0).count, 3);
  EXPECT_EQ(slice_of(0, 8, 3, 1, 1, 0).count, 3);
  EXPECT_EQ(slice_of(0, 8, 3, 2, 1, 0).count, 2);
  EXPECT_EQ(slice_of(0, 5, 1, 0, 2, 0).count, 3);
  EXPECT_EQ(slice_of(0, 5, 1, 0, 2, 1).count, 2);
}

TEST(GatherWindows, WritesTokensAndTheirSuccessors) {
  std::vector<uint16_t> data(500);
  std::iota(data.begin(), data.end(), uint16_t{65000});
  constexpr int64_t kSequence = 16;
  std::vector<int32_t> tokens(3 * kSequence), targets(3 * kSequence);
  gather_windows(data, 3, SampleStream::training, {10, 3}, kSequence, tokens, targets);
  for (uint64_t i = 0; i < 3; ++i) {
    const uint64_t start = window_start(3, SampleStream::training, 10 + i, data.size(), kSequence);
    for (size_t t = 0; t < kSequence; ++t) {
      EXPECT_EQ(tokens[i * kSequence + t], data[start + t]);
      EXPECT_EQ(targets[i * kSequence + t], data[start + t + 1]);
    }
  }
}

TEST(GatherWindows, GivesTheSameSamplesHoweverTheStepIsCut) {
  std::vector<uint16_t> data(300);
  std::iota(data.begin(), data.end(), uint16_t{0});
  constexpr int64_t kSequence = 8, kGlobal = 10;
  std::vector<int32_t> whole(kGlobal * kSequence), whole_targets(kGlobal * kSequence);
  gather_windows(data, 3, SampleStream::training, {50, kGlobal}, kSequence, whole, whole_targets);
  std::vector<int32_t> joined;
  for (int rank = 0; rank < 3; ++rank) {
    for (int64_t micro = 0; micro < 2; ++micro) {
      const BatchSlice slice = slice_of(50, kGlobal, 3, rank, 2, micro);
      std::vector<int32_t> tokens(static_cast<size_t>(slice.count * kSequence)), targets(tokens.size());
      gather_windows(data, 3, SampleStream::training, slice, kSequence, tokens, targets);
      joined.insert(joined.end(), tokens.begin(), tokens.end());
    }
  }
  EXPECT_EQ(joined, whole);
}

}  // namespace
}  // namespace trireme
