#include "train/sft/turn_ends.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

/// a, b, a blank, and the special tokens <end> (3) and <s> (4).
std::unique_ptr<Tokenizer> tokenizer() {
  return tokenizer_from_json(R"({"version": "1.0", "added_tokens": [
    {"id": 3, "content": "<end>", "special": true}, {"id": 4, "content": "<s>", "special": true}],
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "\n": 2}, "merges": []}})",
                             "test");
}

chat::CodedIds coded(const std::vector<std::vector<int32_t>>& conversations) {
  chat::CodedIds ids;
  for (const auto& conversation : conversations) ids.add(conversation);
  return ids;
}

TEST(EndOfCountedTurns, IsTheMarkerThatEndsMostOfThem) {
  const auto known = tokenizer();
  const auto end = [&](const std::vector<std::vector<int32_t>>& conversations) {
    return end_of_counted_turns(coded(conversations), *known);
  };
  EXPECT_EQ(end({{4, 0, ~1, ~3, 2}, {0, ~1, ~3, 2, 4, ~0, ~3}}), TokenId{3});
  EXPECT_EQ(end({{0, ~1, ~3, ~2, 4, 0, ~1, ~3, ~2}}), TokenId{3});  // white space after it counts, too
  EXPECT_EQ(end({{~4, ~0, ~1, ~3, ~2}}), TokenId{3});               // everything counts
  EXPECT_EQ(end({{0, ~1, ~3}, {0, ~1, ~3}, {0, ~1}}), TokenId{3});  // one is cut
  EXPECT_EQ(end({{0, ~1, ~3}, {0, ~1}, {0, ~1}}), std::nullopt);
  EXPECT_EQ(end({{0, ~1}, {0, ~1}}), std::nullopt);
  EXPECT_EQ(end({{0, 1, 3}}), std::nullopt);
}

}  // namespace
}  // namespace trireme
