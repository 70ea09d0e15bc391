#include "text/training/bpe_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "base/rng.h"
#include "text/tokenizer.h"

namespace trireme {
namespace {

using Merges = std::vector<std::pair<std::string, std::string>>;

BpeDescription train(const std::string& text, size_t size) {
  PieceCounter counts;
  counts.add_text(text);
  BpeTraining training;
  training.vocabulary_size = size;
  return train_bpe(counts, training);
}

/// The definition on a small scale: count all pairs of all words again for each merge.
Merges merges_by_definition(const PieceCounter& counts, size_t merges, std::map<std::string, TokenId> ids) {
  std::vector<std::pair<std::vector<std::string>, uint64_t>> words;
  for (const auto& [piece, count] : counts.sorted()) {
    std::vector<std::string> symbols;
    for (const char byte : piece) symbols.push_back(byte == ' ' ? "\u0120" : std::string(1, byte));
    words.emplace_back(symbols, count);
  }
  Merges result;
  while (result.size() < merges) {
    std::map<std::pair<TokenId, TokenId>, uint64_t> pairs;
    for (const auto& [symbols, count] : words) {
      for (size_t i = 0; i + 1 < symbols.size(); ++i) pairs[{ids.at(symbols[i]), ids.at(symbols[i + 1])}] += count;
    }
    if (pairs.empty()) break;
    auto best = pairs.begin();  // the map's order is that of ties
    for (auto it = pairs.begin(); it != pairs.end(); ++it) {
      if (it->second > best->second) best = it;
    }
    std::string left, right;
    for (const auto& [token, id] : ids) {
      if (id == best->first.first) left = token;
      if (id == best->first.second) right = token;
    }
    result.emplace_back(left, right);
    ids.emplace(left + right, static_cast<TokenId>(ids.size()));
    for (auto& [symbols, count] : words) {
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        if (symbols[i] != left || symbols[i + 1] != right) continue;
        symbols[i] += right;
        symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(i) + 1);
      }
    }
  }
  return result;
}

TEST(BpeTrainer, MergesTheMostFrequentPairFirst) {
  const BpeDescription tokenizer = train("low low low lower lower newest", 260);
  EXPECT_EQ(tokenizer.merges, (Merges{{"l", "o"}, {"lo", "w"}, {"\u0120", "low"}}));
  EXPECT_EQ(tokenizer.vocabulary[0].first, "<|endoftext|>");
  EXPECT_EQ(tokenizer.vocabulary[1].first, "!");
  EXPECT_EQ(tokenizer.vocabulary.back(), (std::pair<std::string, TokenId>{"\u0120low", 259}));
}

TEST(BpeTrainer, EqualsTheDefinitionOnRandomWords) {
  RandomStream random(11);
  for (int round = 0; round < 20; ++round) {
    std::string text;
    for (int i = 0; i < 300; ++i) {
      text += ' ';
      for (uint64_t n = 1 + random.below(8); n > 0; --n) text += static_cast<char>('a' + random.below(3));
    }
    PieceCounter counts;
    counts.add_text(text);
    BpeTraining training;
    training.vocabulary_size = 257 + 60;
    const BpeDescription tokenizer = train_bpe(counts, training);
    std::map<std::string, TokenId> ids;
    for (size_t i = 0; i < 257; ++i) ids.insert(tokenizer.vocabulary[i]);
    // A merge that spells an older token adds no id, so the definition is compared up to there.
    const size_t count = std::min<size_t>(tokenizer.merges.size(), 60);
    ASSERT_EQ(Merges(tokenizer.merges.begin(), tokenizer.merges.begin() + static_cast<ptrdiff_t>(count)),
              merges_by_definition(counts, count, ids));
  }
}

TEST(BpeTrainer, DoesNotDependOnTheOrderOfCounting) {
  PieceCounter one, first, second;
  one.add_text("some words and some other words");
  second.add_text("some words and");
  first.add_text(" some other words");
  first.merge(second);
  BpeTraining training;
  training.vocabulary_size = 270;
  EXPECT_EQ(write_tokenizer_json(train_bpe(one, training)), write_tokenizer_json(train_bpe(first, training)));
}

TEST(BpeTrainer, EndsWhenNoPairIsLeft) {
  const BpeDescription tokenizer = train("ab ab", 1000);
  EXPECT_EQ(tokenizer.merges, (Merges{{"a", "b"}, {"\u0120", "ab"}}));
}

TEST(BpeTrainer, LeavesRarePairsAlone) {
  PieceCounter counts;
  counts.add_text("abab ab xy");
  BpeTraining training;
  training.vocabulary_size = 1000;
  training.least_count = 2;
  EXPECT_EQ(train_bpe(counts, training).merges, (Merges{{"a", "b"}}));
}

TEST(BpeTrainer, MakesATokenizerThatLoadsAndRoundTrips) {
  const auto tokenizer = tokenizer_from_json(write_tokenizer_json(train("the cat sat on the mat", 265)), "trained");
  const std::string text = "the cat \xff\u00e9\n<|endoftext|>";
  const Encoding encoding = tokenizer->encode(text);
  EXPECT_EQ(tokenizer->decode(encoding.ids), text);
  EXPECT_EQ(encoding.ids.back(), 0u);
  EXPECT_EQ(tokenizer->end_of_text(), 0u);
  EXPECT_EQ(tokenizer->vocabulary_size(), 265u);
}

TEST(BpeTrainer, RefusesTooSmallVocabulariesAndNoText) {
  try {
    train("text", 256);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "a vocabulary of 256 tokens is too small for the 256 bytes and 1 special tokens; use at least 257");
  }
  EXPECT_THROW(train("", 300), Error);
}

}  // namespace
}  // namespace trireme
