// Ids are found in the text as it was given, whatever the tokenizer changes in it.

#include "text/pipeline/origins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "tests/support/test_data.h"
#include "text/pipeline/normalizer.h"

namespace trireme {
namespace {

/// "normalized text: original pieces" of each byte's span, joined where neighbours have the same one.
std::string traced(const std::string& element, const std::string& text) {
  const JsonNode node = parse_json_node(element, "test");
  std::string made = text;
  Origins origins;
  make_normalizer(JsonObject(node, "test"))->apply(made, TextLimit(text.size()), &origins);
  EXPECT_EQ(origins.size(), made.size());
  std::string plain = text;
  make_normalizer(JsonObject(node, "test"))->apply(plain, TextLimit(text.size()), nullptr);
  EXPECT_EQ(made, plain) << "following the bytes changes nothing";
  std::string shown;
  for (size_t i = 0; i < made.size();) {
    const TextSpan from = origins.of({i, i + 1});
    size_t end = i + 1;
    while (end < made.size() && origins.of({end, end + 1}) == from) ++end;
    shown += "(" + text.substr(from.begin, from.end - from.begin) + ">" + made.substr(i, end - i) + ")";
    i = end;
  }
  return shown;
}

TEST(Origins, OfNormalFormsAreCharactersWithTheirMarks) {
  EXPECT_EQ(traced(R"({"type": "NFC"})", "ae\u0301b"), "(a>a)(e\u0301>\u00e9)(b>b)");
  EXPECT_EQ(traced(R"({"type": "NFC"})", "\u2126\u4e2d"), "(\u2126>\u03a9)(\xe4>\xe4)(\xb8>\xb8)(\xad>\xad)");
  EXPECT_EQ(traced(R"({"type": "NFD"})", "\u00e9"), "(\u00e9>e\u0301)");
  EXPECT_EQ(traced(R"({"type": "NFKC"})", "x\ufb01\xff"), "(x>x)(\ufb01>fi)(\xff>\xff)");
  EXPECT_EQ(traced(R"({"type": "NFKC"})", "\u3131\u314f"), "(\u3131\u314f>\uac00)");  // compatibility jamo join
}

TEST(Origins, OfInsertedTextAreEmptyAndOfDroppedTextNone) {
  EXPECT_EQ(traced(R"({"type": "Prepend", "prepend": "_"})", "ab"), "(>_)(a>a)(b>b)");
  EXPECT_EQ(traced(R"({"type": "Strip", "strip_left": true, "strip_right": true})", "  a "), "(a>a)");
  EXPECT_EQ(traced(R"({"type": "Replace", "pattern": {"String": " "}, "content": "__"})", "a b"), "(a>a)( >__)(b>b)");
  EXPECT_EQ(traced(R"({"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": "_"})", "a  b"), "(a>a)(  >_)(b>b)");
  EXPECT_EQ(traced(R"({"type": "Lowercase"})", "A\u0130"), "(A>a)(\u0130>i\u0307)");
  EXPECT_EQ(traced(R"({"type": "ByteLevel"})", " a"), "( >\u0120)(a>a)");
}

TEST(Origins, FollowSeveralSteps) {
  EXPECT_EQ(traced(R"({"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"},
      {"type": "Lowercase"}, {"type": "Prepend", "prepend": "_"}]})",
                   "\u00c9a"),
            "(>_)(\u00c9>e)(a>a)");
  EXPECT_EQ(
      traced(R"({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
      "lowercase": true})",
             "\u00c9\u4e2d\tB"),
      "(\u00c9>e)(\u4e2d> \u4e2d )(\t> )(B>b)");
}

/// The bytes of `text` that the ids have, each id's in brackets.
std::string cut(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<TokenId> ids, same;
  std::vector<TextSpan> places;
  tokenizer.encode_chat(text, ids, places);
  tokenizer.encode_chat(text, same);
  EXPECT_EQ(ids, same) << "following the bytes changes no id";
  std::string shown;
  for (const TextSpan& place : places) shown += "[" + text.substr(place.begin, place.end - place.begin) + "]";
  return shown;
}

std::string tokenizer_json(const std::string& rest) {
  return R"({"version": "1.0", "added_tokens": [{"id": 90, "content": "<end>", "single_word": false, "lstrip": false,
      "rstrip": true, "normalized": false, "special": true}], )" +
         rest + "}";
}

TEST(Places, OfTokensThatStripWhiteSpaceHoldIt) {
  const auto tokenizer = tokenizer_from_json(
      tokenizer_json(R"("normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"},
          "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "cat": 1}})"),
      "words");
  EXPECT_EQ(cut(*tokenizer, "Cat x<end>\n\nCAT"), "[Cat][x][<end>\n\n][CAT]");
}

TEST(Places, OfSentencePieceTokensAreTheirWords) {
  const std::string model = R"("model": {"type": "BPE", "unk_token": "?", "fuse_unk": true, "byte_fallback": true,
      "vocab": {"?": 0, "▁": 1, "a": 2, "b": 3, "▁a": 4, "<0xC3>": 5, "<0xA9>": 6, "ab": 7}, "merges": ["▁ a", "a b"]})";
  const auto tokenizer = tokenizer_from_json(
      tokenizer_json(R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
          {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}, )" +
                     model),
      "llama");
  EXPECT_EQ(cut(*tokenizer, "a ab é"), "[a][ a][b][ ][\xc3][\xa9]");
  EXPECT_EQ(cut(*tokenizer, "b<end> ab"), "[][b][<end> ][a][b]");  // the space before a text is inserted
  const auto metaspace = tokenizer_from_json(
      tokenizer_json(R"("pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first",
          "split": false}, )" +
                     model),
      "llama 3");
  EXPECT_EQ(cut(*metaspace, "a ab éé zz b"), "[a][ a][b][ ][\xc3][\xa9][\xc3][\xa9][ ][zz][ ][b]");
}

TEST(Places, OfEveryTokenizerAreInOrderAndOfTheSameIds) {
  const std::string text =
      "Hello, WORLD!  two\n\nthree\t\u00e9 e\u0301 \u2126 \uac00 \u4e2d\u6587 \U0001F600 \u0130x <s>a</s> [MASK] naïve "
      "\ufb01ne \u00a0end";
  TRIREME_NEEDS_TEST_DATA("tokenizers");
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test_data_dir() / "tokenizers")) {
    SCOPED_TRACE(entry.path());
    const auto tokenizer = load_tokenizer(entry.path());
    std::vector<TokenId> ids, same;
    std::vector<TextSpan> places;
    try {
      tokenizer->encode_chat(text, same);
    } catch (const Error&) {
      continue;  // a small vocabulary lacks some of the characters
    }
    tokenizer->encode_chat(text, ids, places);
    EXPECT_EQ(ids, same);
    ASSERT_EQ(places.size(), ids.size());
    for (size_t i = 0; i < places.size(); ++i) {
      EXPECT_LE(places[i].begin, places[i].end);
      EXPECT_LE(places[i].end, text.size());
      EXPECT_LE(places[i - std::min<size_t>(i, 1)].begin, places[i].begin) << i;
    }
    ++count;
  }
  EXPECT_GT(count, 5U);
}

}  // namespace
}  // namespace trireme
