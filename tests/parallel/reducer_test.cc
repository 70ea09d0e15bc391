#include "optim/reducer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/rng.h"
#include "base/time.h"
#include "comm/scalars.h"
#include "tests/support/parallel.h"
#include "tests/support/vector_view.h"

namespace trireme {
namespace {

Ops* test_ops() {
  static const std::unique_ptr<Ops> ops = make_cpu_ops();
  return ops.get();
}

/// Gradients as one rank would make them: many magnitudes, so that the order of additions shows.
std::vector<float> gradients_of(int rank, size_t n, uint32_t step = 0) {
  uint64_t state = mix_key(rank, step);
  std::vector<float> values(n);
  for (float& v : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
    const auto random = static_cast<uint32_t>(state >> 32);
    const uint32_t exponent = 115 + random % 24;
    v = std::bit_cast<float>((random & 0x807FFFFF) | exponent << 23);
  }
  return values;
}

float rounded(float x, DType wire) { return wire == DType::bf16 ? to_float(to_bf16(x)) : x; }

/// The definition: every contribution rounded, added in f32 in rank order, rounded.
std::vector<float> expected_sum(size_t n, DType wire, int ranks, uint32_t step = 0) {
  std::vector<float> sum(n);
  for (int r = 0; r < ranks; ++r) {
    const auto x = gradients_of(r, n, step);
    for (size_t i = 0; i < n; ++i) sum[i] = r == 0 ? rounded(x[i], wire) : sum[i] + rounded(x[i], wire);
  }
  for (float& v : sum) v = rounded(v, wire);
  return sum;
}

size_t first_difference(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) return i;
  }
  return a.size();
}

struct Case {
  size_t count;
  DType wire;
  size_t bucket_bytes;
};

/// As the optimizer divides: norm values of 64 elements here.
Ownership ownership_of(size_t count, int ranks, DType wire, size_t bucket_bytes, size_t chunk_bytes = kHostChunkBytes) {
  std::vector<int64_t> borders;
  for (size_t at = 0; at < count; at += 64) borders.push_back(static_cast<int64_t>(at));
  borders.push_back(static_cast<int64_t>(count));
  return {borders, ranks, static_cast<int64_t>(bucket_bytes / size_of(wire)),
          static_cast<int64_t>(chunk_bytes / size_of(wire))};
}

class ReducerOverRanks : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (test_process().size() == 1) GTEST_SKIP() << "needs several ranks";
    group_ = test_process().world().split(0, test_process().rank());
  }
  Communicator& group() { return *group_; }
  int rank() { return test_process().rank(); }
  int size() { return test_process().size(); }

 private:
  std::unique_ptr<Communicator> group_;
};

TEST_P(ReducerOverRanks, GivesTheOrderedSumBitForBitStepAfterStep) {
  const auto [count, wire, bucket_bytes] = GetParam();
  const std::pair<size_t, bool> ways[] = {
      {kHostChunkBytes, true}, {kHostChunkBytes, false}, {kNetworkChunkBytes, false}, {100, true}, {100, false}};
  for (const auto& [chunk_bytes, one_host] : ways) {
    if (chunk_bytes == 100 && count > 100'000) continue;
    std::vector<float> gradients(count);
    const auto own_group = group().split(0, rank());
    const Ownership ownership = ownership_of(count, size(), wire, bucket_bytes, chunk_bytes);
    Reducer exchange(view(gradients), *own_group, *test_ops(), ownership,
                     {.wire = wire, .chunk_bytes = chunk_bytes, .one_host = one_host});
    for (uint32_t step = 0; step < 3; ++step) {
      std::ranges::copy(gradients_of(rank(), count, step), gradients.begin());
      exchange.begin();
      for (size_t end = count / 7; end < count; end += count / 7 + 1) exchange.ready(static_cast<int64_t>(end));
      exchange.ready(static_cast<int64_t>(count));
      exchange.finish();
      const auto expected = expected_sum(count, wire, size(), step);
      const size_t at = first_difference(gradients, expected);
      ASSERT_EQ(at, count) << "chunks of " << chunk_bytes << (one_host ? " in place" : "") << " step " << step
                           << " element " << at << ": " << gradients[at] << " expected " << expected[at];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ReducerOverRanks,
                         testing::Values(Case{1, DType::bf16, 64}, Case{31, DType::f32, 1'000'000},
                                         Case{1000, DType::bf16, 128}, Case{1000, DType::f32, 1000},
                                         Case{50'001, DType::bf16, 10'000}, Case{50'001, DType::f32, 33'333},
                                         Case{3'000'000, DType::bf16, 25'000'000},
                                         Case{3'000'000, DType::f32, 5'000'000}));

class ReducerBehaviour : public ReducerOverRanks {};
INSTANTIATE_TEST_SUITE_P(Default, ReducerBehaviour, testing::Values(Case{200'000, DType::bf16, 50'000}));

TEST_P(ReducerBehaviour, ASlowRankIsWaitedForAndChangesNothingButTime) {
  const auto [count, wire, bucket_bytes] = GetParam();
  auto gradients = gradients_of(rank(), count);
  const Ownership ownership = ownership_of(count, size(), wire, bucket_bytes);
  Reducer exchange(view(gradients), group(), *test_ops(), ownership, {.wire = wire});
  const auto now = [] {
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  };  // of the host
  double last_ready = 0;
  exchange.begin();
  for (int part = 1; part <= 4; ++part) {
    if (rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    last_ready = now();
    exchange.ready(static_cast<int64_t>(count) * part / 4);
  }
  exchange.finish();
  const double finished = now();
  EXPECT_EQ(first_difference(gradients, expected_sum(count, wire, size())), count);
  Scalars scalars(test_process().world());
  EXPECT_GE(finished, scalars.max(last_ready));
  EXPECT_LE(exchange.times().exposed_seconds, finished - last_ready);
}

/// Dense values, then `rows` rows of which each rank touches a few, some of them the same on all ranks, and a negative
/// zero.
std::vector<float> with_sparse_rows(int rank, int64_t dense, int64_t rows, int64_t width, double touched) {
  auto values = gradients_of(rank, static_cast<size_t>(dense + rows * width));
  std::mt19937 random(static_cast<uint32_t>(rank) + 17);
  for (int64_t row = 0; row < rows; ++row) {
    const bool keep = std::bernoulli_distribution(touched)(random) || (touched > 0 && row % 10 == 3);
    if (!keep) std::fill_n(values.begin() + dense + row * width, width, 0.0f);
  }
  if (touched > 0) values[static_cast<size_t>(dense)] = -0.0f;
  return values;
}

TEST_P(ReducerBehaviour, UntouchedRowsStayAtHomeAndTheSumKeepsItsBits) {
  const DType wire = GetParam().wire;
  const int64_t dense = 1000, rows = 301, width = 48;
  for (const double touched : {0.0, 0.1, 1.0}) {
    auto gradients = with_sparse_rows(rank(), dense, rows, width, touched);
    const size_t n = gradients.size();
    std::vector<float> expected(n);
    for (int r = 0; r < size(); ++r) {
      const auto x = with_sparse_rows(r, dense, rows, width, touched);
      for (size_t i = 0; i < n; ++i) expected[i] = r == 0 ? rounded(x[i], wire) : expected[i] + rounded(x[i], wire);
    }
    for (float& v : expected) v = rounded(v, wire);
    const auto own_group = test_process().world().split(0, rank());
    const Ownership ownership = ownership_of(n, size(), wire, 5000);
    Reducer exchange(view(gradients), *own_group, *test_ops(), ownership,
                     {.wire = wire, .rows = {.begin = dense, .count = rows, .width = width, .matrix = dense}});
    exchange.begin();
    exchange.ready(dense);
    exchange.finish();
    const size_t at = first_difference(gradients, expected);
    ASSERT_EQ(at, n) << "element " << at << ": " << gradients[at] << " expected " << expected[at];
    Scalars scalars(test_process().world());
    const auto sent = scalars.sum(static_cast<int64_t>(exchange.times().wire_bytes));
    const auto all = static_cast<int64_t>(n * size_of(wire)) * 2 * (size() - 1);
    if (touched == 0.0) {
      EXPECT_EQ(sent, dense * static_cast<int64_t>(size_of(wire)) * 2 * (size() - 1));
    } else if (touched < 1) {
      EXPECT_LT(sent, all * 7 / 10);
    } else {
      EXPECT_EQ(sent, all);
    }
  }
}

/// Rows of a matrix that has two sums, one of them sparse and behind all others: both have one owner.
TEST_P(ReducerBehaviour, SumsThatStayWithTheirOwnersAreThoseThatEveryoneWouldHave) {
  const DType wire = GetParam().wire;
  const int64_t dense = 20'000, matrix = 1000, rows = 301, width = 48;  // the matrix: dense elements [1000, 15448)
  const auto mine = with_sparse_rows(rank(), dense, rows, width, 0.2);
  const Ownership ownership = ownership_of(dense, size(), wire, 5000);
  const auto sums = [&](SumsAt at, bool one_host) {
    auto gradients = mine;
    const auto own_group = test_process().world().split(0, rank());
    Reducer reducer(
        view(gradients), *own_group, *test_ops(), ownership,
        {.wire = wire, .sums = at, .rows = {dense, rows, width, matrix}, .chunk_bytes = 1000, .one_host = one_host});
    reducer.begin();
    reducer.ready(dense / 2);
    reducer.finish();
    return gradients;
  };
  const auto everywhere = sums(SumsAt::everyone, false), here = sums(SumsAt::owners, false),
             in_place = sums(SumsAt::owners, true);
  EXPECT_EQ(sums(SumsAt::everyone, true), everywhere);
  int64_t owned = 0;
  for (const auto& [begin, end] : ownership.owned_by(rank())) {
    owned += end - begin;
    for (int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      ASSERT_EQ(std::memcmp(&here[at], &everywhere[at], sizeof(float)), 0) << i;
      ASSERT_EQ(std::memcmp(&in_place[at], &everywhere[at], sizeof(float)), 0) << i;
      const int64_t row = i - matrix;
      if (row < 0 || row >= rows * width) continue;
      const auto second = static_cast<size_t>(dense + row);
      ASSERT_EQ(std::memcmp(&here[second], &everywhere[second], sizeof(float)), 0) << "second sum of " << i;
    }
  }
  Scalars scalars(test_process().world());
  EXPECT_EQ(scalars.sum(owned), dense);
}

TEST_P(ReducerBehaviour, CountsTheBytesThatItSends) {
  const auto [count, wire, bucket_bytes] = GetParam();
  auto gradients = gradients_of(rank(), count);
  const Ownership ownership = ownership_of(count, size(), wire, bucket_bytes);
  Reducer exchange(view(gradients), group(), *test_ops(), ownership, {.wire = wire});
  exchange.begin();
  exchange.finish();
  // Each rank sends all but its own slice, and its own slice to everyone else: 2 (N - 1) / N of the array.
  Scalars scalars(test_process().world());
  const auto sent = scalars.sum(static_cast<int64_t>(exchange.times().wire_bytes));
  EXPECT_EQ(sent, static_cast<int64_t>(count * size_of(wire)) * 2 * (size() - 1));
  EXPECT_GT(exchange.times().total_seconds, 0);
}

TEST_P(ReducerBehaviour, ReadyWithoutBeginStartsNothing) {
  const auto [count, wire, bucket_bytes] = GetParam();
  auto gradients = gradients_of(rank(), count);
  const auto before = gradients;
  {
    const Ownership ownership = ownership_of(count, size(), wire, bucket_bytes);
    Reducer exchange(view(gradients), group(), *test_ops(), ownership, {.wire = wire});
    exchange.ready(static_cast<int64_t>(count));
    test_process().world().barrier().wait("test");
  }
  EXPECT_EQ(gradients, before);
}

TEST_P(ReducerBehaviour, DroppedInTheMiddleOfAStepItEndsItsThread) {
  const auto [count, wire, bucket_bytes] = GetParam();
  auto gradients = gradients_of(rank(), count);
  // Never freed: what was sent and never received would reach the next communicator that MPICH gives the same id.
  static const auto own_group = test_process().world().split(0, rank());
  {
    const Ownership ownership = ownership_of(count, size(), wire, bucket_bytes);
    Reducer exchange(view(gradients), *own_group, *test_ops(), ownership, {.wire = wire});
    exchange.begin();
    if (rank() == 0) exchange.ready(static_cast<int64_t>(count) / 2);  // the others never answer
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  test_process().world().barrier().wait("test");
}

TEST(ReducerMemory, StaysBelowABoundHoweverManyRanksThereAre) {
  std::vector<int64_t> borders(3001);  // 200 M parameters in values of the norm
  for (size_t i = 0; i < borders.size(); ++i) borders[i] = static_cast<int64_t>(i) << 16;
  for (const int ranks : {2, 5, 8, 64, 512}) {
    const Ownership ownership(borders, ranks, 12'500'000, 524'288);
    const size_t bytes = Reducer::buffer_bytes(ownership, {.wire = DType::bf16});
    EXPECT_LE(bytes, 65u << 20) << ranks;
    EXPECT_GE(bytes, 8u << 20) << ranks;
    EXPECT_LE(Reducer::buffer_bytes(ownership, {.wire = DType::bf16, .sums = SumsAt::owners}), 65u << 20) << ranks;
  }
  EXPECT_EQ(Reducer::buffer_bytes(Ownership(std::vector<int64_t>{0, 1000}, 1, 100, 100), {}), 0u);
}

TEST(ReducerAlone, RoundsNothing) {
  const auto group = make_single();
  auto gradients = gradients_of(0, 1000);
  const auto before = gradients;
  const Ownership ownership = ownership_of(1000, 1, DType::bf16, 100);
  Reducer exchange(view(gradients), *group, *test_ops(), ownership, {.wire = DType::bf16});
  exchange.begin();
  exchange.ready(1000);
  exchange.finish();
  EXPECT_EQ(gradients, before);
  EXPECT_EQ(exchange.times().wire_bytes, 0u);
}

TEST(ReducerAlone, RefusesAWireTypeWithoutArithmetic) {
  const auto group = make_single();
  std::vector<float> gradients(8);
  try {
    const Reducer exchange(view(gradients), *group, *test_ops(), ownership_of(8, 1, DType::f16, 100),
                           {.wire = DType::f16});
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::config);
    EXPECT_STREQ(e.what(), "gradients cannot be sent as f16; set comm.wire to bf16 or f32");
  }
}

}  // namespace
}  // namespace trireme
