#include "text/models/bpe_merges.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace trireme {
namespace {

/// The definition: apply the merge of lowest rank, leftmost first, until none is left.
std::vector<TokenId> merge_by_definition(const MergeTable& merges, std::vector<TokenId> symbols) {
  while (true) {
    uint64_t best = MergeTable::kNone;
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const uint64_t value = merges.find(symbols[i], symbols[i + 1]);
      if (value < best && value >> 32 < best >> 32) {
        best = value;
        at = i;
      }
    }
    if (best == MergeTable::kNone) return symbols;
    symbols[at] = static_cast<TokenId>(best);
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

/// Random merges over `letters` symbols, each making a new one.
MergeTable random_merges(RandomStream& random, TokenId letters, uint32_t count) {
  MergeTable merges;
  TokenId next = letters;
  for (uint32_t rank = 0; rank < count; ++rank) {
    const auto left = static_cast<TokenId>(random.below(next)), right = static_cast<TokenId>(random.below(next));
    if (merges.add(left, right, rank, next)) ++next;
  }
  return merges;
}

TEST(BpeMerges, EqualTheDefinitionForShortAndLongWords) {
  RandomStream random(3);
  MergeScratch scratch;
  for (int round = 0; round < 400; ++round) {
    const auto letters = static_cast<TokenId>(1 + random.below(4));
    const MergeTable merges = random_merges(random, letters, 40);
    for (const size_t length : {size_t{1}, size_t{2}, size_t{17}, size_t{48}, size_t{49}, size_t{200}}) {
      std::vector<TokenId> symbols;
      for (size_t i = 0; i < length; ++i) symbols.push_back(static_cast<TokenId>(random.below(letters)));
      const std::vector<TokenId> expected = merge_by_definition(merges, symbols);
      merge_symbols(merges, symbols, scratch);
      ASSERT_EQ(symbols, expected) << "round " << round << ", length " << length;
    }
  }
}

TEST(BpeMerges, RefuseASecondMergeOfAPair) {
  MergeTable merges;
  EXPECT_TRUE(merges.add(1, 2, 0, 3));
  EXPECT_FALSE(merges.add(1, 2, 1, 4));
  EXPECT_EQ(merges.find(1, 2), 3u);
  EXPECT_EQ(merges.find(2, 1), MergeTable::kNone);
}

TEST(BpeMerges, TakeAMillionEqualSymbols) {
  MergeTable merges;
  for (TokenId id = 0; id < 10; ++id) merges.add(id, id, id, id + 1);
  std::vector<TokenId> symbols(1'000'000, 0);
  MergeScratch scratch;
  merge_symbols(merges, symbols, scratch);
  EXPECT_EQ(symbols.size(), 1'000'000u / 1024 + 2);  // 976 x 2^10, then 576 = 512 + 64
  EXPECT_EQ(symbols.back(), 6u);
}

ReadSymbols reader_of(const std::vector<TokenId>& symbols) {
  return [&symbols](size_t from, size_t count, std::vector<TokenId>& out) {
    out.insert(out.end(), symbols.begin() + static_cast<ptrdiff_t>(from),
               symbols.begin() + static_cast<ptrdiff_t>(from + count));
  };
}

TEST(BpeMerges, InWindowsAreThoseOfTheWholeWord) {
  RandomStream random(5);
  MergeScratch scratch;
  for (int round = 0; round < 600; ++round) {
    const auto letters = static_cast<TokenId>(1 + random.below(4));
    const MergeTable merges = random_merges(random, letters, static_cast<uint32_t>(random.below(60)));
    std::vector<TokenId> symbols;
    const size_t period = 1 + random.below(40);  // in repetitions borders depend on distant text
    for (size_t i = 0; i < 1500; ++i) {
      const bool repeat = i >= period && (round % 2 == 0 || random.below(50) != 0);
      symbols.push_back(repeat ? symbols[i - period] : static_cast<TokenId>(random.below(letters)));
    }
    std::vector<TokenId> whole = symbols;
    merge_symbols(merges, whole, scratch);
    for (const size_t window : {size_t{2}, size_t{16}, size_t{100}, size_t{700}}) {
      std::vector<TokenId> out{7};  // stays
      merge_in_windows(merges, symbols.size(), reader_of(symbols), scratch, out, window);
      ASSERT_EQ(out[0], 7u);
      out.erase(out.begin());
      ASSERT_EQ(out, whole) << "round " << round << ", window " << window;
    }
  }
}

TEST(BpeMerges, InWindowsTakeNoMoreMemoryForALongerWord) {
  RandomStream random(6);
  const MergeTable merges = random_merges(random, 4, 60);
  MergeScratch scratch;
  std::vector<TokenId> out;
  const auto read = [](size_t from, size_t count, std::vector<TokenId>& symbols) {
    for (size_t i = from; i < from + count; ++i) symbols.push_back(static_cast<TokenId>(i * i % 7 % 4));
  };
  const auto memory = [&](size_t count) {
    out.clear();
    merge_in_windows(merges, count, read, scratch, out);
    return 8 * (scratch.values.capacity() + scratch.heap.capacity()) +
           4 * (scratch.previous.capacity() + scratch.next.capacity() + scratch.window.capacity() +
                scratch.joint.capacity() + scratch.lengths.capacity());
  };
  const size_t small = memory(4 * kMergeWindow);
  EXPECT_EQ(memory(40 * kMergeWindow), small);
  EXPECT_LT(small, size_t{4} << 20);
}

}  // namespace
}  // namespace trireme
