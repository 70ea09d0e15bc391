#include "text/models/token_paths.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "base/rng.h"
#include "text/byte_alphabet.h"

namespace trireme {
namespace {

/// A vocabulary of all bytes and of words of a few letters, with merges of any kind.
struct Tables {
  Vocabulary vocabulary;
  MergeTable merges;
  std::array<TokenId, 256> byte_ids;
  std::map<std::string, TokenId> ids;  // by bytes

  Tables() {
    for (size_t byte = 0; byte < byte_ids.size(); ++byte) byte_ids[byte] = add(std::string(1, static_cast<char>(byte)));
  }
  TokenId add(const std::string& bytes) {
    const auto id = static_cast<TokenId>(ids.size());
    vocabulary.add(spell_bytes(bytes), id, "test");
    ids[bytes] = id;
    return id;
  }
};

std::string random_token(RandomStream& random, const Tables& tables, int letters) {
  auto it =
      tables.ids.upper_bound(std::string(1, static_cast<char>('a' + random.below(static_cast<uint64_t>(letters)))));
  for (uint64_t steps = random.below(6); steps > 0 && it != tables.ids.end() && it->first[0] < 'a' + letters; --steps)
    ++it;
  --it;
  return it->first;
}

/// Tokens composed of two others each, with merges in the order of `ranks`.
void add_merges(RandomStream& random, Tables& tables, int letters, const std::vector<uint32_t>& ranks) {
  for (const uint32_t rank : ranks) {
    const std::string left = random_token(random, tables, letters), right = random_token(random, tables, letters);
    if (tables.ids.contains(left + right)) continue;
    const TokenId left_id = tables.ids[left], right_id = tables.ids[right];
    tables.merges.add(left_id, right_id, rank, tables.add(left + right));
  }
}

/// Tokens as above, and all ways to compose each one, as for rank files.
void add_every_cut(RandomStream& random, Tables& tables, int letters, size_t count) {
  std::vector<std::string> words;
  for (size_t i = 0; i < count; ++i) {
    const std::string word = random_token(random, tables, letters) + random_token(random, tables, letters);
    if (tables.ids.contains(word)) continue;
    words.push_back(word);
    tables.add(word);
  }
  uint32_t rank = 0;
  for (const std::string& word : words) {
    for (size_t cut = 1; cut < word.size(); ++cut) {
      const auto left = tables.ids.find(word.substr(0, cut)), right = tables.ids.find(word.substr(cut));
      if (left != tables.ids.end() && right != tables.ids.end())
        tables.merges.add(left->second, right->second, rank++, tables.ids[word]);
    }
  }
}

/// The number of words with paths; each result is compared with merging.
int compare(RandomStream& random, const Tables& tables, int letters, int words) {
  const TokenPaths paths(tables.vocabulary, tables.merges, tables.byte_ids);
  TokenPaths::Memory memory(paths);
  MergeScratch scratch;
  int found = 0;
  for (int i = 0; i < words; ++i) {
    std::string word;
    for (uint64_t n = 1 + random.below(i % 10 == 0 ? 700 : 60); n > 0; --n)
      word += static_cast<char>('a' + random.below(static_cast<uint64_t>(letters)));
    std::vector<TokenId> expected, out{7};
    for (const char byte : word) expected.push_back(tables.byte_ids[static_cast<uint8_t>(byte)]);
    merge_symbols(tables.merges, expected, scratch);
    const bool appended = paths.append(word, memory, out);
    EXPECT_EQ(out.front(), 7u);
    out.erase(out.begin());
    if (appended) {
      EXPECT_EQ(out, expected) << word;
    } else {
      EXPECT_TRUE(out.empty());
    }
    found += appended;
  }
  return found;
}

std::vector<uint32_t> ranks_in_order(size_t count) {
  std::vector<uint32_t> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

TEST(TokenPaths, AreWhatMergesInTheOrderOfTrainingMake) {
  RandomStream random(11);
  for (int round = 0; round < 300; ++round) {
    const int letters = 1 + static_cast<int>(random.below(4));
    Tables tables;
    add_merges(random, tables, letters, ranks_in_order(40));
    EXPECT_EQ(compare(random, tables, letters, 40), 40) << "round " << round;
  }
}

TEST(TokenPaths, EqualTheMergesOfEveryCutOrAreUnknown) {
  RandomStream random(12);
  int found = 0;
  for (int round = 0; round < 300; ++round) {
    const int letters = 1 + static_cast<int>(random.below(4));
    Tables tables;
    add_every_cut(random, tables, letters, 40);
    found += compare(random, tables, letters, 40);
  }
  EXPECT_GT(found, 300 * 40 / 2);
}

TEST(TokenPaths, OfUnorderedMergesAreRightOrUnknown) {
  RandomStream random(13);
  int found = 0;
  for (int round = 0; round < 300; ++round) {
    const int letters = 1 + static_cast<int>(random.below(4));
    std::vector<uint32_t> ranks = ranks_in_order(40);
    for (size_t i = ranks.size(); i > 1; --i) std::swap(ranks[i - 1], ranks[random.below(i)]);
    Tables tables;
    add_merges(random, tables, letters, ranks);
    found += compare(random, tables, letters, 40);
  }
  EXPECT_LT(found, 300 * 40);
}

TEST(TokenPaths, TakeTokensOfManyBytes) {
  Tables tables;  // "ab", "abab", ... of up to 256 bytes
  std::string word = "a";
  uint32_t rank = 0;
  for (std::string right = "b"; word.size() < 256; right = word) {
    const TokenId left_id = tables.ids[word], right_id = tables.ids[right];
    word += right;
    tables.merges.add(left_id, right_id, rank++, tables.add(word));
  }
  const TokenPaths paths(tables.vocabulary, tables.merges, tables.byte_ids);
  TokenPaths::Memory memory(paths);
  std::string text;
  for (int i = 0; i < 500; ++i) text += "ab";  // 1000 = 3 x 256 + 128 + 64 + 32 + 8
  std::vector<TokenId> out;
  ASSERT_TRUE(paths.append(text + "c", memory, out));
  std::vector<std::string> sizes;
  for (const TokenId id : out) sizes.push_back(std::to_string(tables.vocabulary.token(id)->size()));
  EXPECT_EQ(sizes, (std::vector<std::string>{"256", "256", "256", "128", "64", "32", "8", "1"}));
}

}  // namespace
}  // namespace trireme
