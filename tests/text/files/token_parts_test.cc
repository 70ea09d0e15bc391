#include "text/files/token_parts.h"

#include <gmock/gmock.h>

#include <map>
#include <set>
#include <string>
#include <tuple>

#include "base/rng.h"

namespace trireme {
namespace {

using Found = std::vector<std::tuple<TokenId, TokenId, TokenId>>;

Found found_for(const TokenCuts& cuts, size_t index) {
  std::vector<TokenParts> parts;
  cuts.of(index, parts);
  Found found;
  for (const TokenParts& p : parts) found.emplace_back(p.left, p.right, p.whole);
  return found;
}

/// Tries every place.
Found expected_for(const std::vector<std::string_view>& tokens, const std::vector<TokenId>& ids, size_t index) {
  std::map<std::string_view, TokenId> known;
  for (size_t i = 0; i < tokens.size(); ++i) known[tokens[i]] = ids[i];
  Found found;
  const std::string_view whole = tokens[index];
  for (size_t cut = 1; cut < whole.size(); ++cut) {
    const auto left = known.find(whole.substr(0, cut)), right = known.find(whole.substr(cut));
    if (left != known.end() && right != known.end()) found.emplace_back(left->second, right->second, ids[index]);
  }
  std::sort(found.begin(), found.end());
  return found;
}

TEST(TokenCuts, AreTheWaysToPutATokenTogetherById) {
  const std::vector<std::string_view> tokens{"a", "b", "ab", "aba", "ba", "c"};
  const std::vector<TokenId> ids{7, 3, 9, 20, 8, 1};
  const TokenCuts cuts(tokens, ids);
  EXPECT_EQ(found_for(cuts, 3), (Found{{7, 8, 20}, {9, 7, 20}}));
  EXPECT_EQ(found_for(cuts, 2), (Found{{7, 3, 9}}));
  EXPECT_TRUE(found_for(cuts, 5).empty());
}

TEST(TokenCuts, AreThoseThatTryingEveryPlaceFinds) {
  RandomStream random(mix_key(21));
  for (int round = 0; round < 200; ++round) {
    std::set<std::string> texts;
    // Few different bytes, so that most tokens consist of others; zeros and high bytes are ordinary bytes.
    const std::string bytes("\0\1a\x80\xFF", 5);
    const size_t kinds = 2 + random.below(4), longest = 1 + random.below(20);
    for (int i = 0; i < 300; ++i) {
      std::string text;
      for (size_t left = 1 + random.below(longest); left > 0; --left) text += bytes[random.below(kinds)];
      texts.insert(text);
    }
    std::vector<std::string_view> tokens(texts.begin(), texts.end());
    for (size_t i = tokens.size(); i > 1; --i) std::swap(tokens[i - 1], tokens[random.below(i)]);
    std::vector<TokenId> ids;
    for (size_t i = 0; i < tokens.size(); ++i) ids.push_back(static_cast<TokenId>(3 * i + 5));
    const TokenCuts cuts(tokens, ids);
    for (size_t i = 0; i < tokens.size(); ++i)
      ASSERT_EQ(found_for(cuts, i), expected_for(tokens, ids, i)) << "round " << round << ", token " << i;
  }
}

}  // namespace
}  // namespace trireme
