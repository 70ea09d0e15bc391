#include "data/chat/training_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace trireme::chat {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Packing, PutsEachIntoTheFullestRowThatHasRoom) {
  const std::vector<size_t> lengths = {3, 7, 5, 2, 3, 10, 1};
  const Packing packing = pack_best_fit(lengths, 10);
  EXPECT_THAT(packing.rows, ElementsAre(ElementsAre(5), ElementsAre(1, 0), ElementsAre(2, 4, 3), ElementsAre(6)));
  EXPECT_EQ(packing.cut, 0U);
}

TEST(Packing, CutsWhatIsLongerThanARow) {
  const std::vector<size_t> lengths = {12, 4, 4, 9};
  const Packing packing = pack_best_fit(lengths, 8);
  EXPECT_THAT(packing.rows, ElementsAre(ElementsAre(0), ElementsAre(3), ElementsAre(1, 2)));
  EXPECT_EQ(packing.cut, 2U);
  EXPECT_THAT(pack_best_fit({}, 8).rows, IsEmpty());
}

TEST(Packing, HoldsEveryConversationOnceAndWastesLittle) {
  constexpr size_t kRow = 512;
  std::vector<size_t> lengths;
  uint64_t state = 7;
  for (int i = 0; i < 20'000; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    lengths.push_back(1 + (state >> 33) % (i % 10 == 0 ? kRow : kRow / 4));
  }
  const Packing packing = pack_best_fit(lengths, kRow);
  std::vector<int> seen(lengths.size(), 0);
  for (const auto& row : packing.rows) {
    size_t used = 0;
    for (const size_t one : row) {
      ++seen[one];
      used += lengths[one];
    }
    ASSERT_LE(used, kRow);
  }
  EXPECT_TRUE(std::ranges::all_of(seen, [](int times) { return times == 1; }));
  const size_t ids = std::accumulate(lengths.begin(), lengths.end(), size_t{0});
  EXPECT_LE(packing.rows.size(), ids / kRow + 2);  // padding below one row in all
}

}  // namespace
}  // namespace trireme::chat
