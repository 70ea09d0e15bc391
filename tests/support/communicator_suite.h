#pragma once
// Requirements of every communicator, with exactly representable data. A test binary instantiates the suite with its
// backends, in one source file, because the header defines the tests.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "tests/support/vector_view.h"

namespace trireme {

using OnOneRank = std::function<void(Communicator&)>;

/// `run` calls its argument on every rank of a group in this process: on one rank, or on threads.
struct CommunicatorCase {
  std::string name;
  std::function<void(const OnOneRank&)> run;
};

/// A case in which the process is one rank.
inline CommunicatorCase process_case(std::string name, std::function<std::unique_ptr<Communicator>()> make) {
  return {std::move(name), [make = std::move(make)](const OnOneRank& test) { test(*make()); }};
}

/// One rank of a test.
class SuiteRank {
 public:
  explicit SuiteRank(Communicator& group) : group_(group) {}

 protected:
  Communicator& group() { return group_; }
  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }

  /// n values that differ by rank and place.
  template <class T>
  std::vector<T> values_of(int rank, int64_t n) const {
    std::vector<T> values(static_cast<size_t>(n));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(100 * rank + static_cast<int>(i % 97));
    return values;
  }
  /// Sum of f(rank) over ranks.
  int over_ranks(const std::function<int(int)>& f) const {
    int sum = 0;
    for (int r = 0; r < size(); ++r) sum += f(r);
    return sum;
  }

  template <class T>
  void expect_reductions(int64_t n) {
    for (const Reduction reduction : {Reduction::sum, Reduction::min, Reduction::max}) {
      auto x = values_of<T>(rank(), n);
      group().all_reduce(view(x), reduction).wait("test");
      for (size_t i = 0; i < x.size(); ++i) {
        const int place = static_cast<int>(i % 97);
        const int expected = reduction == Reduction::min   ? place
                             : reduction == Reduction::max ? 100 * (size() - 1) + place
                                                           : over_ranks([&](int r) { return 100 * r + place; });
        ASSERT_EQ(x[i], static_cast<T>(expected)) << "element " << i;
      }
    }
  }

 private:
  Communicator& group_;
};

class CommunicatorSuite : public testing::TestWithParam<CommunicatorCase> {};

/// A test that every rank of the group runs.
#define COMMUNICATOR_TEST(name)                                           \
  struct name##Rank : SuiteRank {                                         \
    using SuiteRank::SuiteRank;                                           \
    void run();                                                           \
  };                                                                      \
  TEST_P(CommunicatorSuite, name) {                                       \
    GetParam().run([](Communicator& group) { name##Rank(group).run(); }); \
  }                                                                       \
  inline void name##Rank::run()

COMMUNICATOR_TEST(AllReducesEveryReducibleType) {
  for (const int64_t n : {1, 2, 17, 1000}) {
    expect_reductions<float>(n);
    expect_reductions<double>(n);
    expect_reductions<int32_t>(n);
    expect_reductions<int64_t>(n);
  }
}

COMMUNICATOR_TEST(RefusesToReduceTypesWithoutArithmetic) {
  std::vector<uint16_t> x(4);
  EXPECT_THROW(group().all_reduce(view(x), Reduction::sum), Error);
}

COMMUNICATOR_TEST(AllGatherPutsRanksBehindEachOther) {
  for (const int64_t n : {1, 4, 17, 1000}) {
    const auto x = values_of<uint16_t>(rank(), n);
    std::vector<uint16_t> y(static_cast<size_t>(n * size()));
    group().all_gather(view(x), view(y)).wait("test");
    std::vector<uint16_t> expected;
    for (int r = 0; r < size(); ++r) {
      const auto part = values_of<uint16_t>(r, n);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    ASSERT_EQ(y, expected);
  }
}

COMMUNICATOR_TEST(BroadcastCopiesTheRoot) {
  for (int root = 0; root < size(); ++root) {
    auto x = values_of<int64_t>(rank(), 23);
    group().broadcast(view(x), root).wait("test");
    EXPECT_EQ(x, values_of<int64_t>(root, 23));
  }
}

COMMUNICATOR_TEST(SendsAndReceivesAroundARing) {
  const int next = (rank() + 1) % size(), previous = (rank() + size() - 1) % size();
  for (const int64_t n : {1, 17, 1000}) {
    const auto x = values_of<double>(rank(), n);
    std::vector<double> y(static_cast<size_t>(n));
    Handle arrival = group().receive(view(y), previous, 7);
    Handle departure = group().send(view(x), next, 7);
    arrival.wait("test");
    departure.wait("test");
    EXPECT_EQ(y, values_of<double>(previous, n));
  }
}

COMMUNICATOR_TEST(MessagesOfOneTagArriveInOrderAndTagsDoNotMix) {
  const int next = (rank() + 1) % size(), previous = (rank() + size() - 1) % size();
  const std::vector<int32_t> a{1}, b{2}, c{3};
  std::vector<int32_t> first(1), second(1), other(1);
  std::vector<Handle> handles;
  handles.push_back(group().send(view(a), next, 1));
  handles.push_back(group().send(view(b), next, 1));
  handles.push_back(group().send(view(c), next, 2));
  handles.push_back(group().receive(view(other), previous, 2));
  handles.push_back(group().receive(view(first), previous, 1));
  handles.push_back(group().receive(view(second), previous, 1));
  for (Handle& handle : handles) handle.wait("test");
  EXPECT_EQ(first, a);
  EXPECT_EQ(second, b);
  EXPECT_EQ(other, c);
}

COMMUNICATOR_TEST(ManyOperationsGoOnAtOnce) {
  std::vector<std::vector<float>> arrays;
  for (int k = 0; k < 8; ++k) arrays.push_back(values_of<float>(rank(), 100 + k));
  std::vector<Handle> handles;
  for (auto& x : arrays) handles.push_back(group().all_reduce(view(x), Reduction::max));
  handles.push_back(group().barrier());
  for (Handle& handle : handles) handle.wait("test");
  for (int k = 0; k < 8; ++k) EXPECT_EQ(arrays[static_cast<size_t>(k)], values_of<float>(size() - 1, 100 + k));
}

COMMUNICATOR_TEST(SplitOrdersByKeyAndSeparatesColors) {
  const int color = rank() % 2;
  const auto part = group().split(color, -rank());
  const int members = (size() + 1 - color) / 2;
  EXPECT_EQ(part->size(), members);
  EXPECT_EQ(part->rank(), members - 1 - rank() / 2);
  std::vector<int32_t> x{rank()};
  part->all_reduce(view(x), Reduction::sum).wait("test");
  EXPECT_EQ(x[0], over_ranks([&](int r) { return r % 2 == color ? r : 0; }));
}

COMMUNICATOR_TEST(OperationsCanBeWaitedForInAnyOrder) {
  const int next = (rank() + 1) % size(), previous = (rank() + size() - 1) % size();
  constexpr int kMessages = 50;
  std::vector<std::vector<int32_t>> sent, received(kMessages, std::vector<int32_t>(3)), sums;
  for (int k = 0; k < kMessages; ++k) sent.push_back({rank(), k, 7});
  for (int k = 0; k < kMessages; ++k) sums.push_back({rank(), k});
  std::vector<Handle> handles;
  for (size_t k = 0; k < kMessages; ++k) {
    handles.push_back(group().receive(view(received[k]), previous, static_cast<int>(k)));
    handles.push_back(group().send(view(sent[k]), next, static_cast<int>(k)));
    handles.push_back(group().all_reduce(view(sums[k]), Reduction::sum));
  }
  for (size_t i = handles.size(); i-- > 0;) handles[i].wait("test");
  for (int k = 0; k < kMessages; ++k) {
    const auto at = static_cast<size_t>(k);
    EXPECT_EQ(received[at], (std::vector<int32_t>{previous, k, 7}));
    EXPECT_EQ(sums[at], (std::vector<int32_t>{size() * (size() - 1) / 2, k * size()}));
  }
}

COMMUNICATOR_TEST(GroupsOfTheSameRanksAreUsedByThreadsAtOnce) {
  const auto beside = group().split(0, rank());
  std::vector<std::vector<int64_t>> there(30, {rank(), 1}), here(30, {1, -rank()});
  std::thread thread([&] {
    for (auto& x : there) beside->all_reduce(view(x), Reduction::sum).wait("test");
  });
  for (auto& x : here) group().all_reduce(view(x), Reduction::min).wait("test");
  thread.join();
  for (const auto& x : there) EXPECT_EQ(x, (std::vector<int64_t>{size() * (size() - 1) / 2, size()}));
  for (const auto& x : here) EXPECT_EQ(x, (std::vector<int64_t>{1, 1 - size()}));
}

COMMUNICATOR_TEST(AGroupSplitFromASplitGroupHasItsOwnMessages) {
  const auto outer = group().split(0, -rank());
  const auto inner = outer->split(0, -outer->rank());
  EXPECT_EQ(inner->rank(), rank());
  std::vector<int32_t> a{10 + rank()}, b{20 + rank()}, c{30 + rank()}, from_a(1), from_b(1), from_c(1);
  const int next = (rank() + 1) % size(), previous = (rank() + size() - 1) % size();
  const auto mirrored = [&](int r) { return size() - 1 - r; };
  std::vector<Handle> handles;
  handles.push_back(group().send(view(a), next, 1));
  handles.push_back(outer->send(view(b), mirrored(next), 1));
  handles.push_back(inner->send(view(c), next, 1));
  handles.push_back(inner->receive(view(from_c), previous, 1));
  handles.push_back(outer->receive(view(from_b), mirrored(previous), 1));
  handles.push_back(group().receive(view(from_a), previous, 1));
  for (Handle& handle : handles) handle.wait("test");
  EXPECT_EQ(from_a[0], 10 + previous);
  EXPECT_EQ(from_b[0], 20 + previous);
  EXPECT_EQ(from_c[0], 30 + previous);
}

COMMUNICATOR_TEST(EmptyTensorsTakePartInCollectives) {
  std::vector<float> x, y;
  group().all_gather(ConstView(std::span<const float>(x), Shape{0}), View(std::span(y), Shape{0})).wait("test");
  group().barrier().wait("test");
}

COMMUNICATOR_TEST(RefusesShapesThatDoNotFit) {
  std::vector<float> x(3), y(3 * static_cast<size_t>(size()) + 1);
  EXPECT_THROW(group().all_gather(view(x), view(y)), Error);
  EXPECT_THROW(group().broadcast(view(x), size()), Error);
  EXPECT_THROW(group().send(view(x), -1, 0), Error);
}

COMMUNICATOR_TEST(AWaitOverItsDeadlineNamesWhatItWaitedFor) {
  // No rank sends; the message that completes the receive follows afterwards, so that no operation stays open.
  static std::vector<float> never(1);
  Handle handle = group().receive(view(never), rank(), 99);
  try {
    handle.wait("the message that does not come", std::chrono::duration<double>(0.05));
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::comm);
    EXPECT_NE(std::string(e.what()).find("the message that does not come: no answer from the other ranks for "),
              std::string::npos)
        << e.what();
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CommunicatorSuite);

inline std::string case_name(const testing::TestParamInfo<CommunicatorCase>& info) { return info.param.name; }

}  // namespace trireme
