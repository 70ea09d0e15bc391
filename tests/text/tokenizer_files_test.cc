#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "text/tokenizer.h"

namespace trireme {
namespace {

using testing::HasSubstr;

class VocabTxt : public testing::Test {
 protected:
  std::vector<TokenId> ids(const std::string& vocabulary, TokenizerLoadOptions::LowerCase choice) {
    write_text(folder_ / "vocab.txt", vocabulary);
    testing::internal::CaptureStderr();
    const auto tokenizer = load_tokenizer(folder_ / "vocab.txt", {.lower_case = choice, .pattern = "", .merges = ""});
    said_ = testing::internal::GetCapturedStderr();
    std::vector<TokenId> out;
    tokenizer->encode_plain("HELLO", out);
    return out;
  }
  using LowerCase = TokenizerLoadOptions::LowerCase;
  TemporaryFolder folder_;
  std::string said_;
};

const std::string kUncased = "[UNK]\nhello\n[CLS]\n", kCased = "[UNK]\nhello\nHELLO\n";

TEST_F(VocabTxt, LettersSayWhetherItIsCased) {
  EXPECT_EQ(ids(kUncased, LowerCase::automatic), std::vector<TokenId>{1});
  EXPECT_THAT(said_, HasSubstr("lower case on, because the vocabulary has no upper-case letter"));
  EXPECT_EQ(ids(kCased, LowerCase::automatic), std::vector<TokenId>{2});
  EXPECT_THAT(said_, HasSubstr("lower case off, because the vocabulary has an upper-case letter"));
  EXPECT_EQ(ids("[UNK]\nhello\n\u00c9t\n", LowerCase::automatic), std::vector<TokenId>{0});
}

TEST_F(VocabTxt, TheFileBesideItDecidesBeforeTheLetters) {
  write_text(folder_ / "tokenizer_config.json", "{\"do_lower_case\": true}");
  EXPECT_EQ(ids(kCased, LowerCase::automatic), std::vector<TokenId>{1});
  EXPECT_THAT(said_, HasSubstr("lower case on, as "));
  EXPECT_THAT(said_, HasSubstr("tokenizer_config.json says"));
  EXPECT_EQ(ids(kCased, LowerCase::off), std::vector<TokenId>{2});
}

TEST_F(VocabTxt, TheUserDecidesBeforeAll) {
  EXPECT_EQ(ids(kUncased, LowerCase::off), std::vector<TokenId>{0});
  EXPECT_THAT(said_, HasSubstr("lower case off, as --lower-case says"));
  EXPECT_EQ(ids(kCased, LowerCase::on), std::vector<TokenId>{1});
  EXPECT_THAT(said_, HasSubstr("lower case on, as --lower-case says"));
}

TEST(TokenizerNames, OneThatIsNotThereIsToldWithWhatIsTakenAndHowToGetIt) {
  setenv("HF_HUB_OFFLINE", "1", 1);
  EXPECT_ERROR(
      load_tokenizer("no-such-tokenizer"), ErrorKind::io,
      "no tokenizer no-such-tokenizer: expected a tokenizer.json, vocab.txt or NAME.tiktoken, or a folder that "
      "holds one or vocab.json with merges.txt; `trireme tokenizer train --input TEXT --vocab-size 8192 --output "
      "FOLDER` makes one from text; HF_HUB_OFFLINE is set, so the Hugging Face hub is not asked; by hand: `trireme "
      "fetch "
      "no-such-tokenizer` where there is a connection, and its folder ");
}

TEST(VocabularyAndMerges, MayHaveAnyNames) {
  const TemporaryFolder folder;
  write_text(folder / "gpt2-vocab.json", R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3})");
  write_text(folder / "gpt2-merges.txt", "#version: 0.2\na b\n");
  TokenizerLoadOptions options;
  options.merges = folder / "gpt2-merges.txt";
  std::vector<TokenId> ids;
  load_tokenizer(folder / "gpt2-vocab.json", options)->encode_plain("abb", ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{2, 1}));
  options.merges = folder / "none.txt";
  EXPECT_ERROR(load_tokenizer(folder / "gpt2-vocab.json", options), ErrorKind::io,
               "no merges " + (folder / "none.txt") + ": those of the vocabulary " + (folder / "gpt2-vocab.json"));
}

TEST(LoadOptions, AreRefusedWhereTheyWouldDoNothing) {
  const TemporaryFolder folder;
  write_text(folder / "vocab.json", R"({"a": 0, "b": 1, "ab": 2})");
  write_text(folder / "merges.txt", "a b\n");
  write_text(folder / "bert.txt", "[UNK]\n[CLS]\n[SEP]\na\n");
  write_text(folder / "tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})");
  write_text(folder / "x.tiktoken", "YQ== 0\n");
  TokenizerLoadOptions pattern, lower;
  pattern.pattern = "gpt2";
  lower.lower_case = TokenizerLoadOptions::LowerCase::on;
  for (const char* name : {"tokenizer.json", "vocab.json", "bert.txt", ""}) {
    EXPECT_ERROR(load_tokenizer(folder / name, pattern), ErrorKind::usage,
                 "--pattern says how text is cut for a file of tiktoken ranks, and ");
  }
  for (const char* name : {"tokenizer.json", "vocab.json", "x.tiktoken", ""})
    EXPECT_ERROR(load_tokenizer(folder / name, lower), ErrorKind::usage, "--lower-case is for a vocab.txt, and ");
  EXPECT_ERROR(load_tokenizer(kCharLevelTokenizer, lower), ErrorKind::usage,
               "CharLevelTokenizer is none; leave it out");
}

TEST(CharLevel, BytesAreIds) {
  const auto tokenizer = load_tokenizer(kCharLevelTokenizer);
  EXPECT_EQ(tokenizer->vocabulary_size(), 512u);
  const std::string text("a\0\xC3\xA9\xFF\n", 6);
  std::vector<TokenId> ids;
  tokenizer->encode_plain(text, ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{97, 0, 0xC3, 0xA9, 0xFF, 10}));
  EXPECT_EQ(tokenizer->decode(ids), text);
}

}  // namespace
}  // namespace trireme
