// Unusual text: it must not crash, lose bytes, or take quadratic time.

#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/test_data.h"
#include "text/files/tokenizer_writer.h"
#include "text/tokenizer.h"
#include "text/training/bpe_trainer.h"

namespace trireme {
namespace {

struct Adversary {
  const char* name;
  std::function<std::string(size_t)> text;  ///< about this many bytes
};

std::string repeated(const std::string& unit, size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += unit;
  return out;
}

const std::vector<Adversary> kAdversaries = {
    {"spaces", [](size_t n) { return std::string(n, ' '); }},
    {"newlines", [](size_t n) { return std::string(n, '\n'); }},
    {"one letter", [](size_t n) { return std::string(n, 'a'); }},
    {"one word", [](size_t n) { return repeated("theotherinand", n); }},
    {"one line", [](size_t n) { return repeated("the quick brown fox ", n); }},
    {"digits", [](size_t n) { return std::string(n, '7'); }},
    {"punctuation", [](size_t n) { return std::string(n, '!'); }},
    {"NUL", [](size_t n) { return std::string(n, '\0'); }},
    {"invalid bytes", [](size_t n) { return std::string(n, '\xff'); }},
    {"cut characters", [](size_t n) { return repeated("\xE4\xB8", n); }},
    {"surrogates", [](size_t n) { return repeated("\xED\xA0\x80", n); }},
    {"combining marks", [](size_t n) { return "e" + repeated("\xCC\x81", n); }},
    {"Chinese", [](size_t n) { return repeated("\xE4\xB8\xAD\xE6\x96\x87", n); }},
    {"emoji", [](size_t n) { return repeated("\xF0\x9F\x91\xA9\xE2\x80\x8D", n); }},
    {"specials", [](size_t n) { return repeated("<|endoftext|", n); }},
    {"apostrophes", [](size_t n) { return std::string(n, '\''); }},
};

/// Processor time, which other programs do not change: the smallest of three passes.
double seconds_of(const Tokenizer& tokenizer, const std::string& text) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    std::vector<TokenId> ids;
    const std::clock_t start = std::clock();
    try {
      tokenizer.encode_plain(text, ids);
    } catch (const Error& e) {  // a vocabulary without an unknown token may refuse the text
      EXPECT_EQ(e.kind(), ErrorKind::data);
    }
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return best;
}

/// Eight times the text must take clearly less than 64 times the time; skips cases that take no measurable time.
void expect_no_quadratic_time(const Tokenizer& tokenizer, const std::string& name) {
  for (const Adversary& adversary : kAdversaries) {
    const double small = seconds_of(tokenizer, adversary.text(12'500));
    const double large = seconds_of(tokenizer, adversary.text(100'000));
    EXPECT_LT(large, 32 * small + 0.1) << name << ", " << adversary.name << ": " << small << " s and " << large << " s";
  }
}

std::unique_ptr<Tokenizer> trained() {
  PieceCounter counts;
  counts.add_text("the cat sat on the mat and the other dog sat in the log");
  BpeTraining training;
  training.vocabulary_size = 300;
  return tokenizer_from_json(write_tokenizer_json(train_bpe(counts, training)), "trained");
}

TEST(Adversarial, AByteLevelVocabularyKeepsEveryByte) {
  const auto tokenizer = trained();
  for (const Adversary& adversary : kAdversaries) {
    const std::string text = adversary.text(100'000);
    std::vector<TokenId> ids;
    tokenizer->encode_plain(text, ids);
    EXPECT_EQ(tokenizer->decode(ids), text) << adversary.name;
  }
}

TEST(Adversarial, TakesNoQuadraticTime) {
  expect_no_quadratic_time(*trained(), "trained");
  std::vector<std::string> words = {"[UNK]", "[CLS]", "[SEP]", "the", "##other", "a", "##a", "!", "7"};
  expect_no_quadratic_time(*tokenizer_from_json(bert_tokenizer_json(words, true, "words"), "words"), "WordPiece");
}

TEST(Adversarial, TakesNoQuadraticTimeWithRealVocabularies) {
  TRIREME_NEEDS_TEST_DATA("tokenizers");
  for (const auto& entry : std::filesystem::directory_iterator(test_data_dir() / "tokenizers"))
    expect_no_quadratic_time(*load_tokenizer(entry.path().string()), entry.path().filename().string());
}

TEST(Adversarial, OddUnicodeComesBackFromByteLevelVocabularies) {
  TRIREME_NEEDS_TEST_DATA("unicode/blns.txt");
  const auto gpt2 = load_tokenizer((test_data_dir() / "gpt2").string());
  for (const auto& entry : std::filesystem::directory_iterator(test_data_dir() / "unicode")) {
    if (entry.path().extension() != ".txt") continue;
    const std::string text = read_text(entry.path().string());
    std::vector<TokenId> ids;
    gpt2->encode_plain(text, ids);
    EXPECT_EQ(gpt2->decode(ids), text) << entry.path();
  }
}

}  // namespace
}  // namespace trireme
