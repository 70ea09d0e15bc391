#include "text/training/bpe_trainer.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/models/pair_map.h"
#include "text/unicode.h"

namespace trireme {
namespace {

constexpr size_t kBytes = 256;

class Trainer {
 public:
  Trainer(const PieceCounter& counts, const BpeTraining& training) : training_(training) {
    add_first_tokens();
    add_words(counts);
    count_pairs();
  }

  BpeDescription run() {
    while (result_.vocabulary.size() < training_.vocabulary_size && !queue_.empty()) {
      Candidate top = queue_.top();
      queue_.pop();
      Pair& pair = pairs_[top.index];
      if (top.count != pair.count) {  // it has lost occurrences since it was queued
        top.count = pair.count;
        if (top.count > 0) queue_.push(top);
        continue;
      }
      if (static_cast<uint64_t>(top.count) < std::max<uint64_t>(1, training_.least_count)) break;
      merge(top.index);
      if (training_.progress && result_.merges.size() % 256 == 0) training_.progress(result_.vocabulary.size());
    }
    return std::move(result_);
  }

 private:
  struct Pair {
    TokenId left, right;
    int64_t count = 0;
    bool listed = false;          // has its merge; the pair can reappear when a later merge spells an older token
    std::vector<uint32_t> words;  // that may hold the pair
  };
  struct Candidate {
    int64_t count;
    TokenId left, right;
    uint32_t index;
    bool operator<(const Candidate& other) const {
      if (count != other.count) return count < other.count;
      return left != other.left ? left > other.left : right > other.right;
    }
  };
  struct Word {
    size_t begin;  // in symbols_
    uint32_t length;
    int64_t count;
  };

  TokenId add_token(std::string token) {
    const auto id = static_cast<TokenId>(result_.vocabulary.size());
    const auto [it, inserted] = ids_.emplace(token, id);
    if (inserted) result_.vocabulary.emplace_back(std::move(token), id);
    return it->second;
  }

  /// Special tokens, then the bytes in the order of their letters.
  void add_first_tokens() {
    for (const std::string& content : training_.special_tokens) {
      AddedToken token;
      token.id = add_token(content);
      token.content = content;
      token.normalized = false;
      token.special = true;
      result_.added.push_back(std::move(token));
    }
    std::vector<uint8_t> bytes(kBytes);
    std::iota(bytes.begin(), bytes.end(), uint8_t{0});
    std::sort(bytes.begin(), bytes.end(), [](uint8_t a, uint8_t b) { return byte_to_letter(a) < byte_to_letter(b); });
    for (const uint8_t byte : bytes) {
      std::string letter;
      append_utf8(byte_to_letter(byte), letter);
      byte_ids_[byte] = add_token(std::move(letter));
    }
  }

  void add_words(const PieceCounter& counts) {
    for (const auto& [piece, count] : counts.sorted()) {
      if (piece.size() < 2) continue;
      words_.push_back({symbols_.size(), static_cast<uint32_t>(piece.size()), static_cast<int64_t>(count)});
      for (const char byte : piece) symbols_.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
    }
  }

  uint32_t pair_index(TokenId left, TokenId right) {
    const uint64_t found = index_.find(left, right);
    if (found != PairMap::kNone) return static_cast<uint32_t>(found);
    const auto index = static_cast<uint32_t>(pairs_.size());
    index_.add(left, right, index);
    pairs_.push_back({left, right, 0, false, {}});
    return index;
  }

  void add_occurrence(uint32_t index, uint32_t word, int64_t count) {
    Pair& pair = pairs_[index];
    pair.count += count;
    if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
  }

  void count_pairs() {
    for (uint32_t w = 0; w < words_.size(); ++w) {
      const TokenId* symbols = symbols_.data() + words_[w].begin;
      for (uint32_t i = 0; i + 1 < words_[w].length; ++i)
        add_occurrence(pair_index(symbols[i], symbols[i + 1]), w, words_[w].count);
    }
    for (uint32_t i = 0; i < pairs_.size(); ++i) push(i);
  }

  void push(uint32_t index) {
    const Pair& pair = pairs_[index];
    if (pair.count > 0) queue_.push({pair.count, pair.left, pair.right, index});
  }

  void merge(uint32_t index) {
    const TokenId left = pairs_[index].left, right = pairs_[index].right;
    const std::string &left_text = result_.vocabulary[left].first, &right_text = result_.vocabulary[right].first;
    if (!std::exchange(pairs_[index].listed, true)) result_.merges.emplace_back(left_text, right_text);
    const TokenId merged = add_token(left_text + right_text);
    const std::vector<uint32_t> words = std::move(pairs_[index].words);
    changed_.clear();
    for (const uint32_t word : words) merge_in_word(word, left, right, merged);
    pairs_[index].count = 0;
    pairs_[index].words.clear();
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (const uint32_t changed : changed_) push(changed);
  }

  void merge_in_word(uint32_t w, TokenId left, TokenId right, TokenId merged) {
    Word& word = words_[w];
    TokenId* symbols = symbols_.data() + word.begin;
    const auto gain = [&](TokenId a, TokenId b) {
      const uint32_t index = pair_index(a, b);
      add_occurrence(index, w, word.count);
      changed_.push_back(index);
    };
    const auto lose = [&](TokenId a, TokenId b) { pairs_[pair_index(a, b)].count -= word.count; };
    uint32_t to = 0;
    for (uint32_t from = 0; from < word.length;) {
      if (from + 1 == word.length || symbols[from] != left || symbols[from + 1] != right) {
        symbols[to++] = symbols[from++];
        continue;
      }
      if (to > 0) {
        lose(symbols[to - 1], left);
        gain(symbols[to - 1], merged);
      }
      if (from + 2 < word.length) {
        lose(right, symbols[from + 2]);
        gain(merged, symbols[from + 2]);
      }
      symbols[to++] = merged;
      from += 2;
    }
    word.length = to;
  }

  const BpeTraining& training_;
  BpeDescription result_;
  std::unordered_map<std::string, TokenId> ids_;
  TokenId byte_ids_[kBytes] = {};
  std::vector<Word> words_;
  std::vector<TokenId> symbols_;  // of all words; a word shrinks in place
  std::vector<Pair> pairs_;
  PairMap index_;
  std::priority_queue<Candidate> queue_;
  std::vector<uint32_t> changed_;
};

}  // namespace

BpeDescription train_bpe(const PieceCounter& counts, const BpeTraining& training) {
  const size_t least = kBytes + training.special_tokens.size();
  require(training.vocabulary_size >= least, ErrorKind::usage,
          "a vocabulary of {} tokens is too small for the 256 bytes and {} special tokens; use at least {}",
          training.vocabulary_size, training.special_tokens.size(), least);
  require(counts.total() > 0, ErrorKind::data, "the text to train a tokenizer is empty");
  return Trainer(counts, training).run();
}

}  // namespace trireme
