// Hierarchical reductions (optim/reduction_plan.h) on ranks that are threads.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "optim/reducer.h"
#include "tests/support/exchange.h"
#include "tests/support/local_ranks.h"
#include "tests/support/vector_view.h"

namespace trireme {
namespace {

constexpr size_t kCount = 5'003;

std::vector<int64_t> borders() {
  std::vector<int64_t> borders;
  for (size_t at = 0; at < kCount; at += 50) borders.push_back(static_cast<int64_t>(at));
  borders.push_back(kCount);
  return borders;
}

/// Each host's contributions added in f32 in rank order and rounded once; these added in the order of hosts, rounded.
std::vector<float> expected_sum(const HostMap& hosts, DType wire, unsigned step) {
  std::vector<float> sum(kCount);
  for (int host = 0; host < hosts.hosts(); ++host) {
    std::vector<float> of_host(kCount);
    bool first = true;
    for (const int rank : hosts.ranks_on(host)) {
      const std::vector<float> own = gradients_of(rank, kCount, step);
      for (size_t i = 0; i < kCount; ++i) of_host[i] = first ? own[i] : of_host[i] + own[i];
      first = false;
    }
    for (size_t i = 0; i < kCount; ++i)
      sum[i] = host == 0 ? rounded(of_host[i], wire) : sum[i] + rounded(of_host[i], wire);
  }
  for (float& value : sum) value = rounded(value, wire);
  return sum;
}

/// Elements whose sums `rank` has.
std::vector<ParameterRange> summed_at(SumsAt sums, const Ownership& ownership, const HostMap& hosts, int rank) {
  if (sums == SumsAt::everyone) return {{0, kCount}};
  if (sums == SumsAt::owners) return ownership.owned_by(rank);
  return ownership_in_hosts(ownership, hosts).owned_by(hosts.local_rank(rank));
}

TEST(HierarchicalReduction, SumsAreThoseOfTheirDefinitionHoweverMessagesTravel) {
  for (const std::vector<int>& host_of :
       {std::vector<int>{0, 0, 1, 1}, {0, 1, 1, 0}, {3, 3, 3}, {0, 1}, {0, 1, 0, 2, 2, 1}}) {
    const HostMap hosts(host_of);
    const int size = hosts.ranks();
    for (const DType wire : {DType::bf16, DType::f32}) {
      for (const LocalOptions& connection : connections()) {
        for (const SumsAt sums : {SumsAt::everyone, SumsAt::owners, SumsAt::owners_of_hosts}) {
          if (sums == SumsAt::owners_of_hosts && hosts.ranks_per_host() == 1) continue;
          run_local(
              size,
              [&](RankContext& rank) {
                const auto group = rank.reporting_group();
                std::vector<float> gradients(kCount);
                const Ownership ownership(borders(), size, 2'000, 300);
                Reducer exchange(view(gradients), *group, *test_ops(), ownership,
                                 {.wire = wire, .sums = sums, .chunk_bytes = 700, .hosts = hosts});
                for (unsigned step = 0; step < 3; ++step) {
                  std::ranges::copy(gradients_of(rank.rank(), kCount, step), gradients.begin());
                  exchange.begin();
                  for (size_t end = 0; end < kCount; end += kCount / 5) exchange.ready(static_cast<int64_t>(end));
                  exchange.finish();
                  const std::vector<float> expected = expected_sum(hosts, wire, step);
                  for (const auto& [begin, end] : summed_at(sums, ownership, hosts, rank.rank())) {
                    const auto at = static_cast<size_t>(begin), n = static_cast<size_t>(end - begin);
                    EXPECT_TRUE(same_bits(std::span(gradients).subspan(at, n), std::span(expected).subspan(at, n)))
                        << size << " ranks, " << hosts.hosts() << " hosts, " << name_of(wire) << ", step " << step
                        << ", element " << begin;
                  }
                }
              },
              connection);
        }
      }
    }
  }
}

// The last stripe has one piece, so that of each host's ranks one exchanges nothing of it with other hosts.
TEST(HierarchicalReduction, EndsOnceAllStagesHaveEndedAlsoWhereTheLastOneHasNothingToDo) {
  constexpr size_t kElements = 210;
  std::vector<int64_t> pieces;
  for (size_t at = 0; at <= kElements; at += 10) pieces.push_back(static_cast<int64_t>(at));
  const HostMap hosts(std::vector<int>{0, 0, 1, 1});
  for (int slow = 0; slow < hosts.ranks(); ++slow) {
    // The later a call, the slower: those of the last stripe end after all others.
    const auto delay = [slow](const LocalCall& call) {
      return std::chrono::milliseconds(call.rank == slow ? 5 * call.number : 0);
    };
    const auto body = [&](RankContext& rank) {
      const auto group = rank.reporting_group();
      std::vector<float> gradients(kElements);
      Reducer exchange(view(gradients), *group, *test_ops(), Ownership(pieces, hosts.ranks(), 200, 10),
                       {.wire = DType::f32, .sums = SumsAt::owners, .hosts = hosts});
      exchange.begin();
      exchange.ready(kElements);
      exchange.finish();
    };  // a rank that goes away before it has sent all its contributions leaves others waiting
    run_local(hosts.ranks(), body, {.delay = delay, .rendezvous = true}, std::chrono::seconds(20));
  }
}

TEST(HierarchicalReduction, EveryElementIsOwnedOnceInEachHost) {
  const HostMap hosts(std::vector<int>{0, 1, 1, 0, 2, 2});
  const Ownership ownership(borders(), 6, 2'000, 300), inside = ownership_in_hosts(ownership, hosts);
  ASSERT_EQ(inside.ranks(), 2);
  std::vector<int> owners(kCount, -1);
  for (int local = 0; local < 2; ++local) {
    for (const auto& [begin, end] : inside.owned_by(local)) {
      for (int64_t i = begin; i < end; ++i) EXPECT_EQ(std::exchange(owners[static_cast<size_t>(i)], local), -1) << i;
    }
  }
  for (int rank = 0; rank < 6; ++rank) {
    for (const auto& [begin, end] : ownership.owned_by(rank)) {
      for (int64_t i = begin; i < end; ++i)
        ASSERT_EQ(owners[static_cast<size_t>(i)], hosts.local_rank(rank)) << i << " of rank " << rank;
    }
  }
}

TEST(HierarchicalReduction, OfAHostOneArrayCrossesTheNetworkEachWay) {
  constexpr int64_t kElements = 4096;  // divisible by the ranks
  const HostMap hosts(std::vector<int>{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3});
  run_local(12, [&](RankContext& rank) {
    const auto group = rank.reporting_group();
    std::vector<float> gradients(static_cast<size_t>(kElements * 12), 1.0F);
    std::vector<int64_t> borders;
    for (int64_t at = 0; at <= kElements * 12; at += kElements) borders.push_back(at);
    const Ownership ownership(borders, 12, kElements * 12, kElements);
    Reducer exchange(view(gradients), *group, *test_ops(), ownership, {.wire = DType::bf16, .hosts = hosts});
    exchange.begin();
    exchange.finish();
    constexpr uint64_t kAll = kElements * 12;
    constexpr uint64_t kInside = kAll * 2 / 3 * sizeof(float);  // contributions to two of three ranks
    constexpr uint64_t kAcross = 2 * (kAll / 3) * 3 / 4 * 2;    // to three of four hosts, and their sums back
    constexpr uint64_t kBack = kAll / 3 * 2 * 2;                // the sums to two others
    EXPECT_EQ(exchange.times().wire_bytes, kInside + kAcross + kBack);
    EXPECT_EQ(gradients, std::vector<float>(gradients.size(), 12.0F));
  });
}

TEST(HierarchicalReduction, BuffersOfManyRanksStayBounded) {
  std::vector<int> host_of;
  for (int rank = 0; rank < 64; ++rank) host_of.push_back(rank / 8);
  std::vector<int64_t> borders;
  for (int64_t at = 0; at <= 100'000'000; at += kNormChunk) borders.push_back(at);
  const Ownership ownership(borders, 64, 12'500'000, 131'072);
  constexpr size_t kOfALeg = size_t{64} << 20;
  EXPECT_LE(Reducer::buffer_bytes(ownership, {.hosts = HostMap(host_of)}), 3 * kOfALeg);
}

}  // namespace
}  // namespace trireme
