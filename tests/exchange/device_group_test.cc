// Stream groups of devices that a library connects, ranks as threads, each with a device of its own.

#include "exchange/device_group.h"

#include "comm/heartbeat.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "exchange/mesh_devices.h"
#include "tests/support/apart_ops.h"
#include "tests/support/exchange.h"
#include "tests/support/expect_error.h"
#include "tests/support/local_ranks.h"
#include "tests/support/socket_network.h"

namespace trireme {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kCount = 1003;
const std::vector<ElementRange> kPieces{{700, 1003}, {0, 0}, {0, 700}};  // of three ranks, one without elements

/// A rank's device and its operators; the devices of its world are connected.
struct Computer {
  explicit Computer(RankContext& rank, const NetworkFaults& faults = {}) : world(rank.world) {
    auto made = std::make_unique<SocketNetwork>(device, faults);
    network = made.get();
    device.set_network(std::move(made));
    connect_devices(world, device);
  }
  ~Computer() { world.set_devices({}); }
  Computer(const Computer&) = delete;
  Computer& operator=(const Computer&) = delete;
  /// A tensor with these values.
  template <class T>
  View tensor(std::vector<T> values) {
    const View x = memory.take(DTypeOf<T>::value, {static_cast<int64_t>(values.size())});
    device.stream().copy(View(std::span(values), x.shape()), x);
    device.stream().finish();
    return x;
  }
  Communicator& world;
  ApartDevice device;
  SocketNetwork* network = nullptr;
  ApartOps ops{device, make_cpu_ops()};
  Arena memory{1 << 20, device};
};

std::vector<float> floats(View x) {
  if (x.dtype() == DType::f32) {
    const HostValues<float> values(x);
    return {values.get().begin(), values.get().end()};
  }
  std::vector<float> all;
  const HostValues<bf16_t> values(x);
  for (const bf16_t value : values.get()) all.push_back(to_float(value));
  return all;
}

GroupOptions chunked(DType wire, Exchange exchange) {
  return {.chunks = GroupOptions::Chunks{{3, wire, exchange, false}, 64}};
}

TEST(DeviceGroup, SumsOfTheirOwnTypeHaveTheDefinitionsBits) {
  run_local(3, [](RankContext& rank) {
    Computer computer(rank);
    const auto group = make_stream_group(rank.world, computer.ops, {.sums = {{DType::bf16, 700}, {DType::f32, 700}}});
    const std::vector<float> own = gradients_of(rank.rank(), kCount, 5);
    std::vector<bf16_t> rounded_own;
    for (const float value : own) rounded_own.push_back(to_bf16(value));
    const View x = computer.tensor(own), y = computer.tensor(rounded_own), whole = computer.tensor(own);
    const ElementRange& piece = kPieces[static_cast<size_t>(rank.rank())];
    const View at_owner = computer.tensor(std::vector<float>(static_cast<size_t>(piece.count())));
    group->sum(x, kPieces, {DType::f32}, {});
    group->sum(y, kPieces, {DType::bf16}, {});
    group->wait(group->scatter_sum(whole, kPieces, at_owner, {DType::f32}, {}), "the test", 0);
    EXPECT_TRUE(same_bits(floats(x), expected_sum(kCount, DType::f32, 3, 5)));
    EXPECT_TRUE(same_bits(floats(y), expected_sum(kCount, DType::bf16, 3, 5)));
    const std::vector<float> all = expected_sum(kCount, DType::f32, 3, 5);
    const auto first = static_cast<size_t>(piece.begin), count = static_cast<size_t>(piece.count());
    if (count > 0) {
      EXPECT_TRUE(same_bits(floats(at_owner), std::span(all).subspan(first, count)));
    }
    EXPECT_EQ(floats(whole), own) << "a sum at the owners changes nothing else";
    EXPECT_TRUE(group->end());
  });
}

TEST(DeviceGroup, RoundedSumsHaveTheBitsOfTheHosts) {
  for (const DType wire : {DType::bf16, DType::f32}) {
    run_local(3, [&](RankContext& rank) {
      Computer computer(rank);
      const auto all = make_stream_group(rank.world, computer.ops, chunked(wire, Exchange::reduce_and_share));
      const auto owners = make_stream_group(rank.world, computer.ops, chunked(wire, Exchange::reduce));
      const auto share = make_stream_group(rank.world, computer.ops, chunked(wire, Exchange::share));
      const auto host = make_stream_group(rank.world, *test_ops(), chunked(wire, Exchange::reduce_and_share));
      std::vector<float> values = gradients_of(rank.rank(), kCount, 5);
      const View x = computer.tensor(values), y = computer.tensor(values);
      const ElementRange& own = kPieces[static_cast<size_t>(rank.rank())];
      all->sum(x, kPieces, {wire}, {});
      all->wait(all->run([](DeviceStream&) {}, {}), "the test", 0);
      EXPECT_TRUE(same_bits(floats(x), expected_sum(kCount, wire, 3, 5)));
      const Event summed = owners->scatter_sum(y, kPieces, y.rows_slice(own.begin, own.count()), {wire}, {});
      share->wait(share->gather(y, kPieces, wire, summed), "the test", 0);
      EXPECT_TRUE(same_bits(floats(y), expected_sum(kCount, wire, 3, 5))) << "the two halves give the whole";
      const View on_host(std::span<float>(values), {kCount});
      host->wait(host->sum(on_host, kPieces, {wire}, {}), "the test", 0);
      EXPECT_TRUE(same_bits(floats(x), values));
      EXPECT_EQ(all->bytes_sent(), host->bytes_sent());
    });
  }
}

GroupOptions by_library(DType wire, Exchange exchange) {
  GroupOptions options = chunked(wire, exchange);
  options.chunks->by_library = true;
  return options;
}

TEST(DeviceGroup, ALibrarysSumsAreItsOwn) {
  for (const DType wire : {DType::bf16, DType::f32}) {
    std::vector<std::vector<float>> got(3);
    run_local(3, [&](RankContext& rank) {
      Computer computer(rank);
      const auto all = make_stream_group(rank.world, computer.ops, by_library(wire, Exchange::reduce_and_share));
      const auto owners = make_stream_group(rank.world, computer.ops, by_library(wire, Exchange::reduce));
      const std::vector<float> values = gradients_of(rank.rank(), kCount, 5);
      const View x = computer.tensor(values), y = computer.tensor(values);
      const ElementRange& own = kPieces[static_cast<size_t>(rank.rank())];
      all->wait(all->sum(x, kPieces, {wire}, {}), "the test", 0);
      const View part = y.rows_slice(own.begin, own.count());
      owners->wait(owners->scatter_sum(y, kPieces, part, {wire}, {}), "the test", 0);
      const std::vector<float>& sums = got[static_cast<size_t>(rank.rank())] = floats(x);
      const auto first = static_cast<size_t>(own.begin), count = static_cast<size_t>(own.count());
      if (count > 0) {
        EXPECT_TRUE(same_bits(floats(part), std::span(sums).subspan(first, count))) << "who gets it changes no bit";
      }
      EXPECT_TRUE(all->end() && owners->end());
    });
    const std::vector<float> flat = expected_sum(kCount, wire, 3, 5);
    EXPECT_TRUE(same_bits(got[0], got[1]) && same_bits(got[0], got[2]));
    EXPECT_FALSE(same_bits(got[0], flat)) << "another definition";
    for (size_t i = 0; i < kCount; ++i) {
      float size = 0;
      for (int r = 0; r < 3; ++r) size = std::max(size, std::abs(gradients_of(r, kCount, 5)[i]));
      ASSERT_NEAR(got[0][i], flat[i], size * (wire == DType::f32 ? 1e-6F : 4e-2F)) << i;
    }
  }
}

TEST(DeviceGroup, ALibrarysSumsNeedOne) {
  run_local(2, [](RankContext& rank) {
    EXPECT_ERROR(make_stream_group(rank.world, *test_ops(),
                                   {.chunks = GroupOptions::Chunks{.route = {2}, .limit = 4, .by_library = true}}),
                 ErrorKind::config, "sums by a library need devices that it connects");
  });
}

TEST(DeviceGroup, ManySumsAreIssuedBeforeTheFirstIsDone) {
  run_local(2, [](RankContext& rank) {
    Computer computer(rank);
    const auto group =
        make_stream_group(rank.world, computer.ops, {.chunks = GroupOptions::Chunks{{2, DType::bf16}, 1 << 10}});
    const View x = computer.tensor(std::vector<float>(kCount, 1.0F));
    const Event after = computer.device.stream().record();
    Event last;
    for (int i = 0; i < 7; ++i) last = group->sum(x, equal_pieces(kCount, 2), {DType::bf16}, after);
    group->wait(last, "the test", 0);
    EXPECT_EQ(floats(x), std::vector<float>(kCount, 128.0F));
  });
}

TEST(DeviceGroup, TheHostGoesOnWhileComputeWaits) {
  std::atomic<bool> seen = false;
  run_local(2, [&](RankContext& rank) {
    Computer computer(rank);
    const auto group = make_stream_group(rank.world, computer.ops, {.sums = {{DType::f32, 2}}});
    const View x = computer.tensor<float>({1, 2, 3});
    while (rank.rank() == 1 && !seen) std::this_thread::sleep_for(1ms);
    group->wait(group->sum(x, equal_pieces(3, 2), {DType::f32}, {}), "the test", 0);
    const Event there = computer.device.stream().record();
    if (rank.rank() == 0) {
      EXPECT_FALSE(there.reached());
      seen = true;
    }
    wait_watching(there, computer.device);
    EXPECT_EQ(floats(x), (std::vector<float>{2, 4, 6}));
  });
}

TEST(DeviceGroup, GathersPiecesOfAnyType) {
  run_local(3, [](RankContext& rank) {
    Computer computer(rank);
    const auto group = make_stream_group(rank.world, computer.ops, {});
    std::vector<int64_t> values(kCount, -1), expected(kCount);
    std::iota(expected.begin(), expected.end(), 0);
    const ElementRange& own = kPieces[static_cast<size_t>(rank.rank())];
    std::iota(values.begin() + own.begin, values.begin() + own.end, own.begin);
    const View x = computer.tensor(values);
    group->wait(group->gather(x, kPieces, DType::i64, {}), "the test", 0);
    const HostValues<int64_t> got(x);
    EXPECT_TRUE(std::ranges::equal(got.get(), expected));
    EXPECT_EQ(group->bytes_sent(), static_cast<uint64_t>(own.count() * 2 * 8));
  });
}

TEST(DeviceGroup, MessagesOfARingTravelBothWaysAtOnce) {
  run_local(3, [](RankContext& rank) {
    Computer computer(rank);
    const int before = (rank.rank() + 2) % 3, behind = (rank.rank() + 1) % 3;
    const auto down = make_stream_group(rank.world, computer.ops, {.from = before, .to = behind});
    const auto up = make_stream_group(rank.world, computer.ops, {.from = behind, .to = before});
    std::vector<View> arrivals;
    Event received, sent;
    // A rank waits for messages that its peers send only after they have got one.
    for (int i = 0; i < 4; ++i)
      received = down->receive(arrivals.emplace_back(computer.tensor<float>({0})), before, {});
    for (int i = 0; i < 4; ++i)
      sent = down->send(computer.tensor<float>({static_cast<float>(10 * rank.rank() + i)}), behind, {});
    const View back = computer.tensor<float>({0});
    const Event arrived = up->receive(back, behind, received);
    up->send(arrivals[3], before, received);
    up->wait(arrived, "the test", 0);
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(floats(arrivals[static_cast<size_t>(i)])[0], static_cast<float>(10 * before + i));
    EXPECT_EQ(floats(back)[0], static_cast<float>(10 * rank.rank() + 3)) << "its own, which went there and back";
    EXPECT_TRUE(down->end() && up->end());
  });
}

/// After a failure: what was issued is given up before the device ends.
void give_up(StreamGroup& group, const Event& last, Computer& computer) {
  EXPECT_FALSE(group.end());
  computer.device.stream().wait(last);
  computer.device.stream().finish();
}

TEST(DeviceGroup, AFailureOfTheLibraryEndsTheWaitAndTheGroup) {
  run_local(2, [](RankContext& rank) {
    Computer computer(rank, rank.rank() == 1 ? NetworkFaults{.fails_at = 1} : NetworkFaults{.hangs_at = 1});
    auto group = make_stream_group(rank.world, computer.ops, {.sums = {{DType::f32, 2}}});
    const View x = computer.tensor<float>({1, 2, 3});
    const Event sum = group->sum(x, equal_pieces(3, 2), {DType::f32}, {});
    if (rank.rank() == 1) {
      EXPECT_ERROR(sum.wait(), ErrorKind::comm, "an error that the test asked for");
      computer.device.stream().wait(sum);
      EXPECT_ERROR(wait_watching(computer.device.stream().record(), computer.device), ErrorKind::comm,
                   "an error that the test asked for");
    } else {
      EXPECT_FALSE(sum.reached());
      const auto start = Clock::now();
      EXPECT_FALSE(group->end()) << "a call that is never done";
      EXPECT_LT(seconds_since(start), 10);
    }
    give_up(*group, sum, computer);
  });
}

TEST(DeviceGroup, AfterAFailureNewGroupsOfTheSameProcessAddRight) {
  run_local(3, [](RankContext& rank) {
    Computer computer(rank);
    const GroupOptions options{.sums = {{DType::f32, 700}}};
    for (int attempt = 0; attempt < 3; ++attempt) {
      if (attempt > 0) connect_devices(rank.world, computer.device);
      const auto group = make_stream_group(rank.world, computer.ops, options);
      const auto other = make_stream_group(rank.world, computer.ops, {});
      const View x = computer.tensor(gradients_of(rank.rank(), kCount, 5));
      if (rank.rank() == 1 && attempt == 0) computer.network->set_faults({.fails_at = computer.network->calls()});
      if (rank.rank() == 2 && attempt == 1) computer.network->set_faults({.hangs_at = computer.network->calls()});
      const Event sum = group->sum(x, kPieces, {DType::f32}, {});
      if (attempt < 2) {
        const auto start = Clock::now();
        EXPECT_FALSE(group->end());
        EXPECT_FALSE(other->end()) << "what fails together ends together";
        EXPECT_LT(seconds_since(start), 5);
        computer.device.stream().wait(sum);
        computer.device.stream().finish();
        rank.world.barrier().wait("the test");
        continue;
      }
      group->wait(sum, "the test", 0);
      EXPECT_TRUE(same_bits(floats(x), expected_sum(kCount, DType::f32, 3, 5)));
      wait_watching(computer.device.stream().record(), computer.device);
      EXPECT_TRUE(group->end() && other->end());
    }
  });
}

TEST(DeviceGroup, WhatComputeWaitsForIsNamedOnlyWhileItWaits) {
  std::atomic<bool> told = false;
  run_local(2, [&](RankContext& rank) {
    Computer computer(rank);
    Heartbeat heartbeat;
    const auto group = make_stream_group(rank.world, computer.ops, {.sums = {{DType::f32, 2}}});
    const View x = computer.tensor<float>({1, 2, 3});
    std::atomic<bool> computing = true;
    if (rank.rank() == 0) {
      static_cast<ApartStream&>(computer.device.stream()).issue([&] {
        while (computing) std::this_thread::sleep_for(1ms);
      });
    }
    while (rank.rank() == 1 && !told) std::this_thread::sleep_for(1ms);
    const Event before = computer.device.stream().record();
    group->wait(group->sum(x, equal_pieces(3, 2), {DType::f32}, before), "a sum of the test", 12);
    std::jthread asks;
    if (rank.rank() == 0) {
      asks = std::jthread([&] {
        std::this_thread::sleep_for(30ms);
        EXPECT_EQ(heartbeat.state().collective, "") << "compute is not there yet";
        computing = false;
        while (heartbeat.state().collective.empty()) std::this_thread::sleep_for(1ms);
        EXPECT_EQ(heartbeat.state().collective, "a sum of the test");
        EXPECT_EQ(heartbeat.state().bytes, 12u);
        told = true;
      });
    }
    wait_watching(computer.device.stream().record(), computer.device, &heartbeat);
    EXPECT_EQ(heartbeat.state().collective, "");
    EXPECT_EQ(floats(x), (std::vector<float>{2, 4, 6}));
  });
}

TEST(DeviceGroup, ALostRankFailsTheCallsOfTheOthers) {
  run_local(2, [](RankContext& rank) {
    Computer computer(rank);
    auto group = make_stream_group(rank.world, computer.ops, {.sums = {{DType::f32, 2}}});
    if (rank.rank() == 1) return;
    const View x = computer.tensor<float>({1, 2, 3});
    Event sum;
    const auto wait = [&] {
      sum = group->sum(x, equal_pieces(3, 2), {DType::f32}, {});
      sum.wait();
    };
    EXPECT_ERROR(wait(), ErrorKind::peer, "remote process exited");
    give_up(*group, sum, computer);
  });
}

TEST(DeviceGroup, TheTwinFindsWhatNcclForbids) {
  run_local(2, [](RankContext& rank) {
    Computer computer(rank);
    auto group = make_stream_group(rank.world, computer.ops, {.sums = {{DType::f32, 4}, {DType::bf16, 4}}});
    const View x = computer.tensor<float>({1, 2, 3, 4});
    if (rank.rank() == 0) {
      std::jthread([&] {
        EXPECT_ERROR(group->gather(x, equal_pieces(4, 2), DType::f32, {}), ErrorKind::comm, "a second thread");
      });
    }
    const int64_t n = rank.rank() == 0 ? 4 : 2;  // the ranks do not agree
    const Event sum = group->sum(x.rows_slice(0, n), equal_pieces(n, 2), {DType::f32}, {});
    if (rank.rank() == 0) {
      EXPECT_ERROR(sum.wait(), ErrorKind::comm,
                   "a message of 4 bytes of f32 arrived where a message of 8 bytes of f32 was expected");
    }
    give_up(*group, sum, computer);
  });
}

TEST(DeviceGroup, TheTwinFindsCallsInAnotherOrder) {
  run_local(2, [](RankContext& rank) {
    Computer computer(rank);
    const bool first = rank.rank() == 0;
    GroupOptions options{.chunks = GroupOptions::Chunks{{2, DType::f32, Exchange::reduce_and_share}, 4, true}};
    if (!first) options.chunks->route.exchange = Exchange::reduce;
    auto group = make_stream_group(rank.world, computer.ops, options);
    const View x = computer.tensor<float>({1, 2, 3, 4});
    const std::vector<ElementRange> pieces = equal_pieces(4, 2);
    const auto add = [&] {
      const Event sum = first ? group->sum(x, pieces, {DType::f32}, {})
                              : group->scatter_sum(x, pieces, x.rows_slice(2, 2), {DType::f32}, {});
      sum.wait();
    };
    // Already of the first ones, which connect the ranks.
    EXPECT_ERROR(add(), ErrorKind::comm,
                 first ? "a part of reduce_scatter of 4 bytes of f32 arrived where a part of all_reduce of 4 bytes of "
                         "f32 was expected"
                       : "a part of all_reduce of 4 bytes of f32 arrived where a part of reduce_scatter of 4 bytes of "
                         "f32 was expected");
    EXPECT_FALSE(group->end());
    computer.device.stream().finish();
  });
}

TEST(DeviceGroup, PartsOfAGroupAreSplitFromItsDevices) {
  run_local(4, [](RankContext& rank) {
    Computer computer(rank);
    // Three of one kind, and a rank that is alone; then pairs of those.
    const bool alone = rank.rank() == 2;
    const auto axis = rank.world.split(alone ? 1 : 0, rank.rank());
    split_devices(rank.world, axis.get());
    EXPECT_EQ(axis->devices() == nullptr, alone);
    const auto group = make_stream_group(*axis, computer.ops, {.sums = {{DType::f32, 3}}});
    const auto pairs = make_stream_group(
        *axis, computer.ops, {.sums = {{DType::f32, 3}}, .color = rank.rank() == 3 ? 1 : 0, .key = -rank.rank()});
    const View x = computer.tensor<float>({1, 2, 3}), y = computer.tensor<float>({1, 2, 3});
    group->wait(group->sum(x, equal_pieces(3, group->size()), {DType::f32}, {}), "the test", 0);
    pairs->wait(pairs->sum(y, equal_pieces(3, pairs->size()), {DType::f32}, {}), "the test", 0);
    EXPECT_EQ(floats(x)[2], alone ? 3.0F : 9.0F);
    EXPECT_EQ(floats(y)[2], rank.rank() < 2 ? 6.0F : 3.0F);
    if (rank.rank() < 2) {
      EXPECT_EQ(pairs->rank(), 1 - rank.rank()) << "in the order of keys";
    }
    EXPECT_TRUE(group->end() && pairs->end());
  });
}

TEST(DeviceGroup, TheTwinFindsSplitsInAnotherOrder) {
  run_local(2, [](RankContext& rank) {
    Computer computer(rank);
    DeviceLinks& world = *rank.world.devices();
    const View x = computer.tensor<float>({1, 2});
    const auto stream = computer.device.make_stream();
    if (rank.rank() == 0) {
      EXPECT_ERROR(world.split(0, 0, LinkUse::tensors), ErrorKind::comm,
                   "a message of 4 bytes of f32 arrived where a split of 16 bytes of i64 was expected");
    } else {
      world.exchange(*stream, std::array{DeviceLinks::Part{.peer = 0, .out = x.rows_slice(0, 1)}});
      stream->finish();
    }
    rank.world.barrier().wait("the test");
    world.abort();
  });
}

TEST(DeviceGroup, TheTwinFindsASplitOfWhatIsInUse) {
  run_local(2, [](RankContext& rank) {
    Computer computer(rank);
    DeviceLinks& world = *rank.world.devices();
    const View x = computer.tensor<float>({1, 2});
    const auto stream = computer.device.make_stream();
    if (rank.rank() == 0) {
      world.exchange(*stream, std::array{DeviceLinks::Part{.peer = 1, .in = x}});
      EXPECT_ERROR(world.split(0, 0, LinkUse::tensors), ErrorKind::comm, "a split of connections that are in use");
      std::jthread([&] { EXPECT_ERROR(world.split(0, 0, LinkUse::tensors), ErrorKind::comm, "a second thread"); });
    }
    world.abort();
    stream->finish();
  });
}

TEST(DeviceGroup, ARankThatDoesNotSplitEndsTheWaitOfTheOthers) {
  run_local(2, [](RankContext& rank) {
    Computer computer(rank);
    computer.network->set_limit(0.05);
    const auto split = [&] { rank.world.devices()->split(0, 0, LinkUse::tensors); };
    if (rank.rank() == 0) {
      EXPECT_ERROR(split(), ErrorKind::peer, "the other ranks of a group did not split it");
      const std::jthread aborts([&] { computer.network->abort_all(); });
    }
    rank.world.barrier().wait("the test");
  });
}

TEST(DeviceGroup, AnAbortByAnotherThreadEndsASplit) {
  run_local(2, [](RankContext& rank) {
    Computer computer(rank);
    if (rank.rank() == 0) {
      const std::jthread aborts([&] {
        std::this_thread::sleep_for(30ms);
        computer.network->abort_all();
      });
      EXPECT_ERROR(rank.world.devices()->split(0, 0, LinkUse::tensors), ErrorKind::comm,
                   "the connection was abandoned");
    }
    rank.world.barrier().wait("the test");
  });
}

TEST(DeviceGroup, NeedsNoMoreMemoryThanThePlanHas) {
  for (const Exchange exchange : {Exchange::reduce, Exchange::reduce_and_share, Exchange::share}) {
    const GroupOptions options = chunked(DType::bf16, exchange);
    EXPECT_LE(device_group_bytes(3, options), group_bytes(3, options));
  }
  EXPECT_EQ(device_group_bytes(3, {.sums = {{DType::f32, 16}}}), 64 + 3u * 16 * 4) << "64 for the first messages";
}

}  // namespace
}  // namespace trireme
