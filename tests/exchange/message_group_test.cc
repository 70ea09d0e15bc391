// Stream groups over communicators, ranks as threads.

#include "exchange/message_group.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "base/time.h"
#include "comm/heartbeat.h"
#include "tests/support/exchange.h"
#include "tests/support/expect_error.h"
#include "tests/support/local_ranks.h"

namespace trireme {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kCount = 1003;
const std::vector<ElementRange> kPieces{{700, 1003}, {0, 0}, {0, 700}};  // of three ranks, one without elements

template <class T>
View view_of(std::vector<T>& values) {
  return View(std::span<T>(values), {static_cast<int64_t>(values.size())});
}

std::span<const float> part(const std::vector<float>& x, const ElementRange& range) {
  return std::span(x).subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.count()));
}

GroupOptions chunked(DType wire, Exchange exchange, bool one_host) {
  return {.chunks = GroupOptions::Chunks{{3, wire, exchange, one_host}, 64}};
}

TEST(StreamGroup, SumsOfTheirOwnTypeHaveTheDefinitionsBits) {
  for (const LocalOptions& connection : connections()) {
    run_local(
        3,
        [](RankContext& rank) {
          const auto group =
              make_stream_group(rank.world, *test_ops(), {.sums = {{DType::bf16, 700}, {DType::f32, 700}}});
          const std::vector<float> own = gradients_of(rank.rank(), kCount, 5);
          std::vector<float> x = own;
          std::vector<bf16_t> rounded_x;
          for (const float value : own) rounded_x.push_back(to_bf16(value));
          std::vector<float> at_owner(static_cast<size_t>(kPieces[static_cast<size_t>(rank.rank())].count())),
              whole = own;
          group->sum(view_of(x), kPieces, {DType::f32}, {});
          group->sum(view_of(rounded_x), kPieces, {DType::bf16}, {});
          group->scatter_sum(view_of(whole), kPieces, view_of(at_owner), {DType::f32}, {}).wait();
          EXPECT_TRUE(same_bits(x, expected_sum(kCount, DType::f32, 3, 5)));
          std::vector<float> got;
          for (const bf16_t value : rounded_x) got.push_back(to_float(value));
          EXPECT_TRUE(same_bits(got, expected_sum(kCount, DType::bf16, 3, 5)));
          EXPECT_TRUE(same_bits(
              at_owner, part(expected_sum(kCount, DType::f32, 3, 5), kPieces[static_cast<size_t>(rank.rank())])));
          EXPECT_EQ(whole, own) << "a sum at the owners changes nothing else";
          EXPECT_TRUE(group->end());
        },
        connection);
  }
}

TEST(StreamGroup, SumsInChunksHaveTheDefinitionsBits) {
  for (const LocalOptions& connection : connections()) {
    for (const DType wire : {DType::bf16, DType::f32}) {
      for (const bool one_host : {false, true}) {
        run_local(
            3,
            [&](RankContext& rank) {
              const auto all =
                  make_stream_group(rank.world, *test_ops(), chunked(wire, Exchange::reduce_and_share, one_host));
              const auto owners = make_stream_group(rank.world, *test_ops(), chunked(wire, Exchange::reduce, one_host));
              const auto share = make_stream_group(rank.world, *test_ops(), chunked(wire, Exchange::share, one_host));
              std::vector<float> x = gradients_of(rank.rank(), kCount, 5), y = x;
              const ElementRange& own = kPieces[static_cast<size_t>(rank.rank())];
              all->sum(view_of(x), kPieces, {wire}, {});
              all->wait(all->run([](DeviceStream&) {}, {}), "the test", 0);
              EXPECT_TRUE(same_bits(x, expected_sum(kCount, wire, 3, 5)));
              const Event summed =
                  owners->scatter_sum(view_of(y), kPieces, view_of(y).rows_slice(own.begin, own.count()), {wire}, {});
              const Event shared = share->gather(view_of(y), kPieces, wire, summed);
              owners->wait(summed, "the test", 0);
              share->wait(shared, "the test", 0);
              EXPECT_TRUE(same_bits(y, expected_sum(kCount, wire, 3, 5))) << "the two halves give the whole";
            },
            connection);
      }
    }
  }
}

TEST(StreamGroup, GathersManyPiecesOfAnyType) {
  run_local(3, [](RankContext& rank) {
    const auto group = make_stream_group(rank.world, *test_ops(), {});
    std::vector<std::vector<int64_t>> arrays(9, std::vector<int64_t>(kCount, -1));
    const ElementRange& own = kPieces[static_cast<size_t>(rank.rank())];
    Event last;
    for (std::vector<int64_t>& x : arrays) {
      std::iota(x.begin() + own.begin, x.begin() + own.end, own.begin);
      last = group->gather(view_of(x), kPieces, DType::i64, {});
    }
    last.wait();
    std::vector<int64_t> expected(kCount);
    std::iota(expected.begin(), expected.end(), 0);
    for (const std::vector<int64_t>& x : arrays) EXPECT_EQ(x, expected);
    EXPECT_EQ(group->bytes_sent(), static_cast<uint64_t>(9 * own.count() * 2 * 8));
  });
}

TEST(StreamGroup, MessagesArriveInTheOrderInWhichTheyWereSent) {
  for (const LocalOptions& connection : connections()) {
    run_local(
        2,
        [](RankContext& rank) {
          const auto group = make_stream_group(rank.world, *test_ops(), {});
          const int other = 1 - rank.rank();
          std::vector<std::vector<float>> out, in(20, std::vector<float>(3));
          for (int i = 0; i < 20; ++i) out.emplace_back(3, static_cast<float>(100 * rank.rank() + i));
          Event sent, received;
          for (auto& x : in) received = group->receive(view_of(x), other, {});
          for (auto& x : out) sent = group->send(view_of(x), other, {});
          received.wait();
          sent.wait();
          for (int i = 0; i < 20; ++i) EXPECT_EQ(in[static_cast<size_t>(i)][2], static_cast<float>(100 * other + i));
        },
        connection);
  }
}

/// An event that the test reaches.
struct Gate final : Event::State {
  void wait() override {
    while (!open) std::this_thread::sleep_for(100us);
  }
  bool reached() override { return open; }
  std::atomic<bool> open = false;
};

TEST(StreamGroup, ACallReadsItsTensorAfterItsEvent) {
  run_local(2, [](RankContext& rank) {
    const auto group = make_stream_group(rank.world, *test_ops(), {.sums = {{DType::f32, 1}}});
    std::vector<float> x{0};
    const auto gate = std::make_shared<Gate>();
    const Event sum = group->sum(view_of(x), equal_pieces(1, 2), {DType::f32}, Event(gate));
    std::this_thread::sleep_for(5ms);
    EXPECT_FALSE(sum.reached());
    x[0] = static_cast<float>(rank.rank() + 1);
    gate->open = true;
    sum.wait();
    EXPECT_EQ(x[0], 3);
  });
}

TEST(StreamGroup, WorkRunsAfterEarlierCallsAndMayMakeFurtherOnes) {
  run_local(2, [](RankContext& rank) {
    const auto group = make_stream_group(rank.world, *test_ops(), {.sums = {{DType::f32, 2}}});
    std::vector<float> x{1, 2, 3};
    Event again;
    group->sum(view_of(x), equal_pieces(3, 2), {DType::f32}, {});
    group
        ->run(
            [&](DeviceStream&) {
              EXPECT_EQ(x, (std::vector<float>{2, 4, 6}));
              again = group->sum(view_of(x), equal_pieces(3, 2), {DType::f32}, {});
            },
            {})
        .wait();
    again.wait();
    EXPECT_EQ(x, (std::vector<float>{4, 8, 12}));
  });
}

TEST(StreamGroup, AWaitSaysForWhatAndCountsTheChunks) {
  run_local(2, [](RankContext& rank) {
    const auto group =
        make_stream_group(rank.world, *test_ops(),
                          {.chunks = GroupOptions::Chunks{{2, DType::f32, Exchange::reduce_and_share, false}, 64}});
    std::vector<float> x(1000, 1.0F);
    if (rank.rank() == 1) std::this_thread::sleep_for(50ms);
    std::jthread watcher;
    if (rank.rank() == 0) {
      watcher = std::jthread([of = rank.heartbeat] {
        while (of->state().collective.empty()) std::this_thread::sleep_for(100us);
        EXPECT_EQ(of->state().collective, "the sum of the test");
        EXPECT_EQ(of->state().bytes, 4000u);
      });
    }
    group->wait(group->sum(view_of(x), equal_pieces(1000, 2), {DType::f32}, {}), "the sum of the test", 4000);
    const Waiting waiting(rank.heartbeat, "nothing", 0);
    EXPECT_EQ(rank.heartbeat->state().chunks, 8u) << "500 elements per rank, 64 at a time";
  });
}

TEST(StreamGroup, ALostRankFailsTheCallsOfTheOthersAndTheEnd) {
  const auto members = make_local_group(2);
  std::jthread lost([&] {
    std::this_thread::sleep_for(20ms);
    members[0]->revoke(1, "the test ends it");
  });
  Heartbeat heartbeat;
  const RankContext rank = rank_context(*members[0], &heartbeat);
  std::unique_ptr<Communicator> half;
  std::jthread other([&] { half = members[1]->split(0, 1); });  // a split needs both
  const auto group = make_stream_group(rank.world, *test_ops(), {.sums = {{DType::f32, 2}}});
  std::vector<float> x(3);
  const Event sum = group->sum(view_of(x), equal_pieces(3, 2), {DType::f32}, {});
  EXPECT_ERROR(sum.wait(), ErrorKind::peer, "rank 1");
  EXPECT_FALSE(group->end());
}

TEST(StreamGroup, PlansItsMemory) {
  EXPECT_EQ(group_bytes(3, {}), 0u);
  EXPECT_EQ(group_bytes(3, {.sums = {{DType::f32, 16}}}), 3u * 16 * 4);
  const GroupOptions options = chunked(DType::bf16, Exchange::reduce, false);
  EXPECT_EQ(group_bytes(3, options), ChunkPipeline::bytes_for(options.chunks->route, options.chunks->limit));
}

}  // namespace
}  // namespace trireme
