#include "text/models/piece_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/rng.h"

namespace trireme {
namespace {

TEST(PieceCache, ReturnsWhatWasPutInOrNothing) {
  PieceCache cache;
  RandomStream random(5);
  std::map<std::string, std::vector<TokenId>> known;
  size_t hits = 0;
  for (int round = 0; round < 200000; ++round) {
    // Zero bytes and lengths around 16 could confuse a padded key.
    std::string piece(1 + random.below(round % 10 == 0 ? 300 : 20), '\0');
    for (char& byte : piece) byte = static_cast<char>(random.below(2));
    std::vector<TokenId> found;
    if (cache.append(piece, found)) {
      ++hits;
      ASSERT_EQ(found, known.at(piece));
      continue;
    }
    std::vector<TokenId> ids(1 + random.below(6));
    for (TokenId& id : ids) id = static_cast<TokenId>(random.next());
    cache.insert(piece, ids);
    known[piece] = ids;
  }
  EXPECT_GT(hits, 10000u);
}

TEST(PieceCache, FindsAPieceInsideALongerText) {
  PieceCache cache;
  cache.insert("word", std::vector<TokenId>{7});
  const std::string text = "word and what follows it";
  const auto count = [&](size_t bytes) {
    const std::string_view piece(text.data(), bytes);
    TokenId ids[PieceCache::kInlineIds];
    const size_t found = cache.find(piece, cache.place(piece, text.size()), ids);
    if (found > 0) {
      EXPECT_EQ(ids[0], 7u);
    }
    return found;
  };
  EXPECT_EQ(count(4), 1u);
  EXPECT_EQ(count(3), 0u);
  EXPECT_EQ(count(5), 0u);
}

TEST(PieceCache, KeepsAPieceThatComesAgainWhileOthersComeOnce) {
  PieceCache cache;
  const auto is_known = [&](std::string_view piece) {
    std::vector<TokenId> found;
    return cache.append(piece, found) && found == std::vector<TokenId>{7};
  };
  cache.insert("again", std::vector<TokenId>{7});
  ASSERT_TRUE(is_known("again"));
  size_t pushed_out = 0;
  for (TokenId i = 0; i < 500000; ++i) {  // several for each place
    cache.insert("once " + std::to_string(i), std::vector<TokenId>{7});
    if (i % 1000 == 0) {
      ASSERT_TRUE(is_known("again")) << i;
    }
  }
  for (TokenId i = 0; i < 1000; ++i) pushed_out += is_known("once " + std::to_string(i)) ? 0 : 1;
  EXPECT_GT(pushed_out, 0u) << "the places are more than this test thinks";
}

TEST(PieceCache, DoesNotKeepVeryLongPieces) {
  PieceCache cache;
  const std::string piece(PieceCache::kLongestPiece + 1, 'x');
  cache.insert(piece, std::vector<TokenId>{1});
  std::vector<TokenId> found;
  EXPECT_FALSE(cache.append(piece, found));
}

}  // namespace
}  // namespace trireme
