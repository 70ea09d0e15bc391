#include "data/chat/training_rows.h"

#include <gmock/gmock.h>

#include <initializer_list>

namespace trireme::chat {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Conversations of 10 n + i ids of which the last `counted` count in the loss, for n = 1, 2, ...
CodedIds made(std::initializer_list<std::pair<int, int>> lengths_and_counted) {
  CodedIds all;
  int32_t n = 0;
  for (const auto& [length, counted] : lengths_and_counted) {
    ++n;
    std::vector<int32_t> codes;
    for (int32_t i = 0; i < length; ++i) codes.push_back(i < length - counted ? 10 * n + i : ~(10 * n + i));
    all.add(codes);
  }
  return all;
}

std::vector<int32_t> firsts(const CodedIds& all) {
  std::vector<int32_t> out;
  for (size_t i = 0; i < all.size(); ++i) out.push_back(id_of(all.at(i)[0]));
  return out;
}

TEST(TrainingRows, PutConversationsTogetherAndCountTheirIds) {
  const TrainingRows rows = make_rows(made({{3, 1}, {5, 2}, {2, 1}, {6, 6}}), 8, true);
  EXPECT_THAT(rows.rows, ElementsAre(ElementsAre(3, 2), ElementsAre(1, 0)));
  EXPECT_THAT(rows.lengths, ElementsAre(8, 8));
  EXPECT_THAT(rows.counted, ElementsAre(5 + 1, 2 + 1));  // the first id of a conversation is never predicted
  EXPECT_EQ(rows.ids(), 16);
  EXPECT_EQ(rows.counted_ids(), 9);
  EXPECT_EQ(rows.padding(), 0);
  EXPECT_EQ(rows.cut, 0U);
  EXPECT_EQ(rows.uncounted, 0U);
}

TEST(TrainingRows, HoldOneConversationEachWithoutPacking) {
  const TrainingRows rows = make_rows(made({{3, 1}, {5, 2}}), 8, false);
  EXPECT_THAT(rows.rows, ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_EQ(rows.padding(), 0.5);
}

TEST(TrainingRows, OfPairsHoldBothAnswersAndLeaveOutWhatTeachesNothing) {
  CodedIds pairs = made({{3, 1}, {4, 2}, {7, 2}, {5, 3}, {6, 2}, {2, 1}});  // of the third answer the end is lost
  const std::vector<int32_t> same{1, 2, 3, ~4, ~5, ~6}, other{1, 2, 3, ~4, ~5, ~7};  // differ behind 5 ids
  pairs.add(same);
  pairs.add(other);
  const TrainingRows rows = make_pairs(pairs, 5);
  EXPECT_THAT(rows.rows, ElementsAre(ElementsAre(0, 1), ElementsAre(4, 5)));
  EXPECT_THAT(rows.lengths, ElementsAre(7, 7));
  EXPECT_THAT(rows.counted, ElementsAre(3, 2));
  EXPECT_EQ(rows.cut, 1U);
  EXPECT_EQ(rows.uncounted, 1U);
  EXPECT_EQ(rows.equal, 1U);
  EXPECT_EQ(make_pairs(pairs, 6).equal, 0U);
}

TEST(TrainingRows, AShareOfPairsKeepsThemTogether) {
  CodedIds all;
  for (int32_t i = 0; i < 20; ++i) all.add(std::vector<int32_t>{10 * i, ~1});
  const CodedIds taken = take_share(all, 0.3, 7, 2);
  ASSERT_EQ(taken.size(), 6U);
  EXPECT_EQ(all.size(), 14U);
  for (const std::vector<int32_t>& names : {firsts(taken), firsts(all)}) {
    for (size_t i = 0; i < names.size(); i += 2) {
      EXPECT_EQ(names[i] % 20, 0);
      EXPECT_EQ(names[i + 1], names[i] + 10);
    }
  }
}

TEST(TrainingRows, CutLongConversationsAndLeaveOutThoseWithNoCountedIdThen) {
  // 5 of 7 ids fit: of the first the counted end is lost, of the second one of two counted ids stays.
  const TrainingRows rows = make_rows(made({{7, 2}, {6, 2}, {2, 0}, {1, 1}, {3, 1}}), 5, true);
  EXPECT_THAT(rows.rows, ElementsAre(ElementsAre(1), ElementsAre(4)));
  EXPECT_THAT(rows.lengths, ElementsAre(5, 3));
  EXPECT_THAT(rows.counted, ElementsAre(1, 1));
  EXPECT_EQ(rows.cut, 1U);
  EXPECT_EQ(rows.uncounted, 3U);
  EXPECT_EQ(rows.kept(1).size(), 5U);
}

TEST(TrainingRows, OfNothingAreNone) {
  EXPECT_THAT(make_rows({}, 5, true).rows, IsEmpty());
  EXPECT_EQ(make_rows({}, 5, true).padding(), 0);
}

TEST(TakeShare, DividesTheConversationsByTheSeed) {
  const auto ten = [] {
    return made({{1, 0}, {2, 0}, {1, 0}, {2, 0}, {1, 0}, {2, 0}, {1, 0}, {2, 0}, {1, 0}, {2, 0}});
  };
  CodedIds all = ten(), again = ten(), other = ten();
  const CodedIds some = take_share(all, 0.3, 7);
  EXPECT_EQ(some.size(), 3U);
  EXPECT_EQ(all.size(), 7U);
  std::vector<int32_t> both = firsts(some), rest = firsts(all);
  EXPECT_TRUE(std::ranges::is_sorted(both));
  EXPECT_TRUE(std::ranges::is_sorted(rest));
  both.insert(both.end(), rest.begin(), rest.end());
  std::ranges::sort(both);
  EXPECT_EQ(both, firsts(ten()));
  EXPECT_EQ(take_share(again, 0.3, 7).codes, some.codes);
  EXPECT_NE(take_share(other, 0.3, 8).codes, some.codes);
}

TEST(TakeShare, LeavesAndTakesAtLeastOne) {
  CodedIds two = made({{1, 0}, {2, 0}}), one = made({{1, 0}});
  EXPECT_EQ(take_share(two, 0, 7).size(), 0U);
  EXPECT_EQ(take_share(one, 0.5, 7).size(), 0U);
  CodedIds little = two, much = two;
  EXPECT_EQ(take_share(little, 0.01, 7).size(), 1U);
  EXPECT_EQ(take_share(much, 0.9, 7).size(), 1U);
}

}  // namespace
}  // namespace trireme::chat
