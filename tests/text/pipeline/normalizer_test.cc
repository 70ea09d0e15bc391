#include "text/pipeline/normalizer.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

std::string normalize(const std::string& element, std::string text) {
  const JsonNode node = parse_json_node(element, "test");
  make_normalizer(JsonObject(node, "test"))->apply(text, TextLimit(text.size()), nullptr);
  return text;
}

TEST(Normalizer, NormalFormsKeepInvalidBytes) {
  EXPECT_EQ(normalize(R"({"type": "NFC"})", "e\u0301\xff\u0301"), "\u00e9\xff\u0301");
  EXPECT_EQ(normalize(R"({"type": "NFD"})", "\u00e9"), "e\u0301");
  EXPECT_EQ(normalize(R"({"type": "NFKC"})", "\ufb01\u00bd"), "fi1\u20442");
}

TEST(Normalizer, NormalFormOfALongTextIsThatOfItsParts) {
  std::string text, expected;
  for (int i = 0; i < 100000; ++i) {
    text += i % 7 == 0 ? "e\u0301 " : "u\u0308";
    expected += i % 7 == 0 ? "\u00e9 " : "\u00fc";
  }
  EXPECT_EQ(normalize(R"({"type": "NFC"})", text), expected);
}

TEST(Normalizer, LowerCaseHasTwoCharactersForTheDottedI) {
  EXPECT_EQ(normalize(R"({"type": "Lowercase"})", "A\u00c9\u0130\u03a3"), "a\u00e9i\u0307\u03c3");
}

TEST(Normalizer, BertCleansSplitsAndLowers) {
  const std::string bert =
      R"({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true})";
  EXPECT_EQ(normalize(bert, "H\u00e9llo\t\u4e2dB\u0001\u200b\u00a0x"), "hello  \u4e2d b x");
  const std::string cased =
      R"({"type": "BertNormalizer", "clean_text": false, "handle_chinese_chars": false, "strip_accents": null, "lowercase": false})";
  EXPECT_EQ(normalize(cased, "H\u00e9\x7f\t"), "H\u00e9\x7f\t");
}

TEST(Normalizer, SmallOnesDoWhatTheirNamesSay) {
  EXPECT_EQ(normalize(R"({"type": "Strip", "strip_left": true, "strip_right": true})", " \u3000a b\n"), "a b");
  EXPECT_EQ(normalize(R"({"type": "Strip", "strip_left": true, "strip_right": false})", "  "), "");
  EXPECT_EQ(normalize(R"({"type": "Prepend", "prepend": "_"})", "a"), "_a");
  EXPECT_EQ(normalize(R"({"type": "Prepend", "prepend": "_"})", ""), "");
  EXPECT_EQ(normalize(R"({"type": "Replace", "pattern": {"String": "aa"}, "content": "b"})", "aaaac"), "bbc");
  EXPECT_EQ(normalize(R"({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})", "a   b\xff  "),
            "a b\xff ");
  EXPECT_EQ(normalize(R"({"type": "StripAccents"})", "e\u0301"), "e");
}

TEST(Normalizer, ReplacementsThatMultiplyAreStoppedWhereTheyBegin) {
  const std::string many(100, 'a');
  const std::string replace = R"({"type": "Replace", "pattern": {"String": "a"}, "content": ")" + many + R"("})";
  const std::string chain =
      R"({"type": "Sequence", "normalizers": [)" + replace + "," + replace + "," + replace + "," + replace + "]}";
  EXPECT_EQ(normalize(replace, "bab").size(), 102u) << "a single one is what the file says";
  EXPECT_ERROR(normalize(chain, std::string(200'000, 'a')), ErrorKind::data,
               "bytes from a text of 200000, the limit; its replacements multiply");
  const std::string pattern = R"({"type": "Replace", "pattern": {"Regex": "a"}, "content": ")" + many + R"("})";
  EXPECT_ERROR(normalize(pattern, std::string(200'000, 'a')), ErrorKind::data, "replacements multiply");
}

TEST(Normalizer, ALongChainOfThoseThatAddALittleIsStoppedToo) {
  std::string chain = R"({"type": "Sequence", "normalizers": [{"type": "ByteLevel"})";
  for (int i = 0; i < 40; ++i) chain += R"(, {"type": "ByteLevel"})";
  EXPECT_ERROR(normalize(chain + "]}", std::string(100'000, '\xE9')), ErrorKind::data,
               "replacements multiply");  // "each doubles what is no ASCII"
}

TEST(Normalizer, PatternsThatTakeTooLongAreStopped) {
  const auto replace = [](const std::string& pattern) {
    return R"({"type": "Replace", "pattern": {"Regex": ")" + pattern + R"("}, "content": "b"})";
  };
  EXPECT_ERROR(normalize(replace("(a{1000}){1000}"), "x"), ErrorKind::data,
               "matches texts of at least 65535 characters, but at most 4096 are supported");
  EXPECT_ERROR(normalize(replace("(a|aa)+$"), std::string(100'000, 'a') + "b"), ErrorKind::data, "failed at byte 0");
  EXPECT_ERROR(normalize(replace("a*b*a*[cd]"), std::string(200'000, 'a')), ErrorKind::data,
               "a pattern of the tokenizer is too slow");                                             // "quadratic"
  EXPECT_ERROR(normalize(replace("((a{1,200}b){1,200}c){1,200}"), "x"), ErrorKind::data, "pattern");  // "large code"
  EXPECT_ERROR(normalize(replace(std::string(20'000, 'a')), "x"), ErrorKind::data,
               "a pattern of 20000 bytes, but at most 16384 are supported");
  EXPECT_EQ(normalize(replace("a{2}"), "caa" + std::string(5000, ' ') + "aa"), "cb" + std::string(5000, ' ') + "b")
      << "matches far from each other";
}

TEST(Normalizer, RefusesPatternsThatItWouldMisread) {
  try {
    normalize(R"({"type": "Replace", "pattern": {"Regex": "[a&&[^b]]"}, "content": ""})", "x");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "test: pattern: the pattern [a&&[^b]] has nested sets, which are unsupported");
  }
  EXPECT_THROW(normalize(R"({"type": "Replace", "pattern": {"Regex": "(a"}, "content": ""})", "x"), Error);
}

}  // namespace
}  // namespace trireme
