#include "optim/exchange.h"

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

namespace trireme {
namespace {

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

class ExchangeOverRanks : public testing::TestWithParam<Case> {
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

TEST_P(ExchangeOverRanks, GivesTheOrderedSumBitForBitStepAfterStep) {
  const auto [count, wire, bucket_bytes] = GetParam();
  for (const size_t chunk_bytes : {kHostChunkBytes, kNetworkChunkBytes, size_t{100}}) {
    if (chunk_bytes == 100 && count > 100'000) continue;
    std::vector<float> gradients(count);
    const auto own_group = group().split(0, rank());
    Exchange exchange(gradients, *own_group, {wire, bucket_bytes, {}, {}, chunk_bytes});
    for (uint32_t step = 0; step < 3; ++step) {
      std::ranges::copy(gradients_of(rank(), count, step), gradients.begin());
      exchange.begin();
      for (size_t end = count / 7; end < count; end += count / 7 + 1) exchange.ready(static_cast<int64_t>(end));
      exchange.ready(static_cast<int64_t>(count));
      exchange.finish();
      const auto expected = expected_sum(count, wire, size(), step);
      const size_t at = first_difference(gradients, expected);
      ASSERT_EQ(at, count) << "chunks of " << chunk_bytes << " step " << step << " element " << at << ": "
                           << gradients[at] << " expected " << expected[at];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ExchangeOverRanks,
                         testing::Values(Case{1, DType::bf16, 64}, Case{31, DType::f32, 1'000'000},
                                         Case{1000, DType::bf16, 128}, Case{1000, DType::f32, 1000},
                                         Case{50'001, DType::bf16, 10'000}, Case{50'001, DType::f32, 33'333},
                                         Case{3'000'000, DType::bf16, 25'000'000},
                                         Case{3'000'000, DType::f32, 5'000'000}));

class ExchangeBehaviour : public ExchangeOverRanks {};
INSTANTIATE_TEST_SUITE_P(Default, ExchangeBehaviour, testing::Values(Case{200'000, DType::bf16, 50'000}));

TEST_P(ExchangeBehaviour, ASlowRankIsWaitedForAndChangesNothingButTime) {
  const auto [count, wire, bucket_bytes] = GetParam();
  auto gradients = gradients_of(rank(), count);
  Exchange exchange(gradients, group(), {wire, bucket_bytes, {}, {}});
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

TEST_P(ExchangeBehaviour, UntouchedRowsStayAtHomeAndTheSumKeepsItsBits) {
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
    Exchange exchange(gradients, *own_group, {wire, 5000, {}, {dense, rows, width}});
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

TEST_P(ExchangeBehaviour, CountsTheBytesThatItSends) {
  const auto [count, wire, bucket_bytes] = GetParam();
  auto gradients = gradients_of(rank(), count);
  Exchange exchange(gradients, group(), {wire, bucket_bytes, {}, {}});
  exchange.begin();
  exchange.finish();
  // Each rank sends all but its own slice, and its own slice to everyone else: 2 (N - 1) / N of the array.
  Scalars scalars(test_process().world());
  const auto sent = scalars.sum(static_cast<int64_t>(exchange.times().wire_bytes));
  EXPECT_EQ(sent, static_cast<int64_t>(count * size_of(wire)) * 2 * (size() - 1));
  EXPECT_GT(exchange.times().total_seconds, 0);
}

TEST_P(ExchangeBehaviour, ReadyWithoutBeginStartsNothing) {
  const auto [count, wire, bucket_bytes] = GetParam();
  auto gradients = gradients_of(rank(), count);
  const auto before = gradients;
  {
    Exchange exchange(gradients, group(), {wire, bucket_bytes, {}, {}});
    exchange.ready(static_cast<int64_t>(count));
    test_process().world().barrier().wait("test");
  }
  EXPECT_EQ(gradients, before);
}

TEST_P(ExchangeBehaviour, DroppedInTheMiddleOfAStepItEndsItsThread) {
  const auto [count, wire, bucket_bytes] = GetParam();
  auto gradients = gradients_of(rank(), count);
  // Never freed: what was sent and never received would reach the next communicator that MPICH gives the same id.
  static const auto own_group = test_process().world().split(0, rank());
  {
    Exchange exchange(gradients, *own_group, {wire, bucket_bytes, {}, {}});
    exchange.begin();
    if (rank() == 0) exchange.ready(static_cast<int64_t>(count) / 2);  // the others never answer
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  test_process().world().barrier().wait("test");
}

TEST(ExchangeAlone, RoundsNothing) {
  const auto group = make_single();
  auto gradients = gradients_of(0, 1000);
  const auto before = gradients;
  Exchange exchange(gradients, *group, {DType::bf16, 100, {}, {}});
  exchange.begin();
  exchange.ready(1000);
  exchange.finish();
  EXPECT_EQ(gradients, before);
  EXPECT_EQ(exchange.times().wire_bytes, 0u);
}

TEST(ExchangeAlone, RefusesAWireTypeWithoutArithmetic) {
  const auto group = make_single();
  std::vector<float> gradients(8);
  try {
    Exchange exchange(gradients, *group, {DType::f16, 100, {}, {}});
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::config);
    EXPECT_STREQ(e.what(), "gradients cannot travel as f16; set comm.wire to bf16 or f32");
  }
}

}  // namespace
}  // namespace trireme
