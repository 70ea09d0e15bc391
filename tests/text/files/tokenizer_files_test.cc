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
  EXPECT_THAT(said_, HasSubstr("lower case on, from "));
  EXPECT_THAT(said_, HasSubstr("tokenizer_config.json"));
  EXPECT_EQ(ids(kCased, LowerCase::off), std::vector<TokenId>{2});
}

TEST_F(VocabTxt, TheUserDecidesBeforeAll) {
  EXPECT_EQ(ids(kUncased, LowerCase::off), std::vector<TokenId>{0});
  EXPECT_THAT(said_, HasSubstr("lower case off, from --lower-case"));
  EXPECT_EQ(ids(kCased, LowerCase::on), std::vector<TokenId>{1});
  EXPECT_THAT(said_, HasSubstr("lower case on, from --lower-case"));
}

/// Tokens and ids that Hugging Face's tokenizers library reads from the same bytes (WordPiece.read_file, 0.23).
TEST_F(VocabTxt, LinesAreReadAsHuggingFaceReadsThem) {
  struct Row {
    const char *name, *lines;
    std::vector<std::pair<std::string, TokenId>> tokens;
  };
  const std::string first = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (const Row& row : {
           Row{"lines", "the\ncat\n", {{"the", 5}, {"cat", 6}}},
           Row{"no end of the last line", "the\ncat", {{"the", 5}, {"cat", 6}}},
           Row{"CRLF", "the\r\ncat\r\n", {{"the", 5}, {"cat", 6}}},
           Row{"two CR", "the\r\r\ncat\n", {{"the", 5}, {"cat", 6}}},
           Row{"blank at the end of a line", "the \ncat\t \v\f\nsat\n", {{"the", 5}, {"cat", 6}, {"sat", 7}}},
           Row{"blank at its beginning", " cat\ncat\nnew york\n", {{" cat", 5}, {"cat", 6}, {"new york", 7}}},
           Row{"white space of Unicode",
               "the\u00a0\ncat\u3000\nsat\u200b\n",
               {{"the", 5}, {"cat", 6}, {"sat\u200b", 7}}},
           Row{"controls stay", "the\x1c\ncat\n", {{"the\x1c", 5}, {"cat", 6}}},
           Row{"blank lines", "the\n\ncat\n\n\n", {{"the", 5}, {"cat", 7}, {"", 9}}},
           Row{"NEL and U+2028 do not end lines",
               "the\n\u0085\nc\u2028t\nsat\n",
               {{"the", 5}, {"", 6}, {"c\u2028t", 7}, {"sat", 8}}},
           Row{"the last of equal words", "the\ncat\ncat \nsat\n", {{"the", 5}, {"cat", 7}, {"sat", 8}}},
           Row{"the last of equal special words", "the\n[UNK]\n[CLS]\n", {{"[UNK]", 6}, {"[CLS]", 7}, {"[SEP]", 3}}},
       }) {
    SCOPED_TRACE(row.name);
    write_text(folder_ / "vocab.txt", first + row.lines);
    const auto tokenizer = load_tokenizer(folder_ / "vocab.txt");
    for (const auto& [token, id] : row.tokens) {
      EXPECT_EQ(tokenizer->token_to_id(token), id) << token;
      EXPECT_EQ(tokenizer->id_to_token(id), token);
    }
    EXPECT_EQ(tokenizer->vocabulary_size(), std::max_element(
                                                row.tokens.begin(), row.tokens.end(),
                                                [](auto& a, auto& b) {
                                                  return a.second < b.second;
                                                })->second +
                                                1u);
  }
}

TEST_F(VocabTxt, TemplatesTakeTheLastOfEqualSpecialWords) {
  write_text(folder_ / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\n[CLS]\ncat\ncat\n");
  EXPECT_EQ(load_tokenizer(folder_ / "vocab.txt")->encode("the cat").ids, (std::vector<TokenId>{5, 4, 7, 3}));
}

TEST_F(VocabTxt, AByteOrderMarkStaysInTheFirstTokenAndDoesNotAffectCase) {
  write_text(folder_ / "vocab.txt", "\xEF\xBB\xBF[PAD]\n[UNK]\nhello\n");
  const auto tokenizer = load_tokenizer(folder_ / "vocab.txt");
  EXPECT_EQ(tokenizer->token_to_id("\xEF\xBB\xBF[PAD]"), TokenId{0});
  std::vector<TokenId> out;
  tokenizer->encode_plain("HELLO", out);
  EXPECT_EQ(out, std::vector<TokenId>{2});
}

TEST_F(VocabTxt, TextOfAnotherEncodingIsNamedByItsLine) {
  write_text(folder_ / "vocab.txt", "[PAD]\n[UNK]\n\xE9\n");
  EXPECT_ERROR(load_tokenizer(folder_ / "vocab.txt"), ErrorKind::data,
               "vocab.txt, line 3: not UTF-8; `iconv -f LATIN1");
}

TEST(TokenizerNames, AMissingOneGivesAWarningWithItsReplacementAndTheFix) {
  setenv("HF_HUB_OFFLINE", "1", 1);
  EXPECT_ERROR(
      load_tokenizer("no-such-tokenizer"), ErrorKind::io,
      "tokenizer no-such-tokenizer does not exist: expected a tokenizer.json, vocab.txt or NAME.tiktoken, or a folder "
      "that holds one or vocab.json with merges.txt; `trireme tokenizer train --input TEXT --vocab-size 8192 "
      "--output FOLDER` makes one from text; HF_HUB_OFFLINE is set, so the Hugging Face hub is not used; run `trireme "
      "fetch no-such-tokenizer` on a connected machine and copy its folder ");
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
               "merges file " + (folder / "none.txt") + " of the vocabulary " + (folder / "gpt2-vocab.json"));
}

TEST(VocabularyAndMerges, AreFoundBesideEachOther) {
  const std::string vocabulary = R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3})", merges = "#version: 0.2\na b\n";
  for (const auto& [name, partner] : {std::pair{"vocab.json", "merges.txt"},
                                      {"vocab.json", "vocab.bpe"},
                                      {"encoder.json", "vocab.bpe"},
                                      {"encoder.json", "merges.txt"},
                                      {"gpt2-vocab.json", "gpt2-merges.txt"},
                                      {"my.own_vocab.json", "my.own_merges.txt"},
                                      {"gpt2-encoder.json", "gpt2-vocab.bpe"}}) {
    SCOPED_TRACE(name);
    const TemporaryFolder folder;
    write_text(folder / name, vocabulary);
    EXPECT_ERROR(load_tokenizer(folder / name), ErrorKind::io, "needs merges.txt or vocab.bpe beside it");
    EXPECT_FALSE(holds_tokenizer(folder.path()));
    write_text(folder / partner, merges);
    for (const std::string& given : {folder / name, folder.path()}) {
      std::vector<TokenId> ids;
      load_tokenizer(given)->encode_plain("abb", ids);
      EXPECT_EQ(ids, (std::vector<TokenId>{2, 1})) << given;
    }
    EXPECT_TRUE(holds_tokenizer(folder.path()));
    EXPECT_ERROR(load_tokenizer(folder / partner), ErrorKind::usage, "contains the merges of a vocabulary; name the");
  }
}

TEST(VocabularyAndMerges, AFolderWithSeveralOfThemDoesNotSayWhich) {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b"}) {
    write_text(folder / (std::string(name) + "-vocab.json"), R"({"a": 0})");
    write_text(folder / (std::string(name) + "-merges.txt"), "");
  }
  EXPECT_FALSE(holds_tokenizer(folder.path()));
  EXPECT_ERROR(load_tokenizer(folder.path()), ErrorKind::io, " has no tokenizer: expected tokenizer.json");
}

TEST(VocabularyAndMerges, MergesBelongToAVocabulary) {
  const TemporaryFolder folder;
  write_text(folder / "tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})");
  write_text(folder / "bert.txt", "[UNK]\n[CLS]\n[SEP]\na\n");
  write_text(folder / "x.tiktoken", "YQ== 0\n");
  write_text(folder / "m.txt", "a b\n");
  TokenizerLoadOptions merges;
  merges.merges = folder / "m.txt";
  for (const char* name : {"tokenizer.json", "bert.txt", "x.tiktoken", ""})
    EXPECT_ERROR(load_tokenizer(folder / name, merges), ErrorKind::usage,
                 "--merges needs a vocabulary in GPT-2's format (vocab.json), but ");
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
                 "--pattern needs a tiktoken rank file, but ");
  }
  for (const char* name : {"tokenizer.json", "vocab.json", "x.tiktoken", ""})
    EXPECT_ERROR(load_tokenizer(folder / name, lower), ErrorKind::usage, "--lower-case needs a vocab.txt, but ");
  EXPECT_ERROR(load_tokenizer(kCharLevelTokenizer, lower), ErrorKind::usage,
               "CharLevelTokenizer is not one; omit --lower-case");
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
