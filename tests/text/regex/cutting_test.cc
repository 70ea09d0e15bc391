// How a tokenizer uses its pre-tokenizer: tables from text to ids if possible, and the same ids in every way.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "base/file.h"
#include "base/rng.h"
#include "tests/support/expect_error.h"
#include "tests/support/test_data.h"
#include "tests/text/regex/model_patterns.h"
#include "text/base64.h"
#include "text/byte_alphabet.h"
#include "text/files/tiktoken.h"
#include "text/files/tokenizer_writer.h"
#include "text/tokenizer.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string split(const std::string& pattern, const std::string& behavior = "Isolated", bool invert = false) {
  std::string quoted;
  for (const char c : pattern) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return fmt::format(R"({{"type": "Split", "pattern": {{"Regex": "{}"}}, "behavior": "{}", "invert": {}}})", quoted,
                     behavior, invert);
}

std::string byte_level(bool pattern) {
  return fmt::format(R"({{"type": "ByteLevel", "add_prefix_space": false, "use_regex": {}}})", pattern);
}

/// A byte-level tokenizer with some merges and the pre-tokenizers.
std::unique_ptr<Tokenizer> tokenizer_of(const std::vector<std::string>& elements) {
  BpeDescription description;
  const auto letters = tokenizer_from_json(byte_tokenizer_json(), "bytes");
  for (TokenId id = 0; id < 256; ++id) description.vocabulary.emplace_back(letters->id_to_token(id), id);
  for (const auto& [left, right] : {std::pair{"t", "h"},
                                    {"th", "e"},
                                    {"\u0120", "the"},
                                    {"a", "a"},
                                    {"aa", "aa"},
                                    {"1", "2"},
                                    {"\u0120", "\u0120"},
                                    {"e", "."},
                                    {".", "a"},
                                    {"2", "a"}}) {
    description.merges.emplace_back(left, right);
    description.vocabulary.emplace_back(std::string(left) + right, static_cast<TokenId>(description.vocabulary.size()));
  }
  std::string json = write_tokenizer_json(description);
  const std::string key = "\"pre_tokenizer\": ";
  const size_t begin = json.find(key) + key.size();
  json.replace(begin, json.find('\n', begin) - begin,
               fmt::format(R"({{"type": "Sequence", "pretokenizers": [{}]}},)", fmt::join(elements, ", ")));
  return tokenizer_from_json(json, "test");
}

std::vector<TokenId> ids_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<TokenId> ids;
  tokenizer.encode_plain(text, ids);
  return ids;
}

struct Elements {
  const char* name;
  std::vector<std::string> list;
};

const std::vector<Elements>& model_elements() {
  const auto pattern = [](const char* name) {
    for (const auto& model : test::model_patterns()) {
      if (std::string_view(model.name) == name) return split(model.pattern);
    }
    throw std::runtime_error(name);
  };
  static const std::vector<Elements> list{
      {"GPT-2", {byte_level(true)}},
      {"cl100k", {pattern("cl100k, Llama-3, Phi-4"), byte_level(false)}},
      {"cl100k, inverted", {split(test::model_patterns()[2].pattern, "Removed", true), byte_level(false)}},
      {"o200k", {pattern("o200k, Llama-4"), byte_level(false)}},
      {"Tekken", {pattern("Tekken"), byte_level(false)}},
      {"Qwen", {pattern("Qwen 2 and 3"), byte_level(false)}},
      {"DeepSeek-V3",
       {pattern("DeepSeek-V3, numbers"), pattern("DeepSeek-V3, Chinese and Japanese"), pattern("DeepSeek-V3, words"),
        byte_level(false)}},
      {"StarCoder", {R"({"type": "Digits", "individual_digits": true})", byte_level(true)}},
      {"Falcon",
       {R"({"type": "Punctuation", "behavior": "Contiguous"})", byte_level(true),
        R"({"type": "Digits", "individual_digits": false})", split("[0-9][0-9][0-9]")}},
      {"BLOOM", {pattern("BLOOM"), byte_level(false)}},
  };
  return list;
}

const std::vector<std::string>& alphabet() {
  static const std::vector<std::string> list{
      "the", " ",  "  ",     "\n",     "\t",     "\r",         "'s",     "'LL",    "aaaa", "A",    "e",    "12",
      "3",   "4",  ".",      "!",      "-",      "\u00e9",     "\u00b2", "\u00bd", "中",   "文",   "ひ",   "\u0663",
      "，",  "\"", "\u00a0", "\u3000", "\u0301", "\U0001f600", "\xff",   "\xe2",   "\xb2", "word", "Word", "\v"};
  return list;
}

std::string random_text(RandomStream& random, uint64_t parts) {
  std::string text;
  for (uint64_t i = random.below(parts); i > 0; --i) text += alphabet()[random.below(alphabet().size())];
  return text;
}

TEST(Cutting, ByTablesGivesTheIdsThatElementByElementGives) {
  RandomStream random(17);
  for (const Elements& elements : model_elements()) {
    const auto tables = tokenizer_of(elements.list);
    // A string that does not occur in text: tables do not support strings, so each element works separately.
    std::vector<std::string> others = elements.list;
    others.insert(others.begin(),
                  R"({"type": "Split", "pattern": {"String": "no text has this"}, "behavior": "Isolated"})");
    const auto element_by_element = tokenizer_of(others);
    for (int round = 0; round < 3000; ++round) {
      const std::string text = random_text(random, 30);
      ASSERT_EQ(ids_of(*tables, text), ids_of(*element_by_element, text)) << elements.name << ": " << text;
    }
  }
}

TEST(Cutting, EveryModelsTextCanBeSharedByThreads) {
  RandomStream random(18);
  for (const Elements& elements : model_elements()) {
    const auto tokenizer = tokenizer_of(elements.list);
    EXPECT_LT(tokenizer->cut("one two three", 1), 13u) << elements.name;
    for (int round = 0; round < 3000; ++round) {
      const std::string text = random_text(random, 30);
      if (text.empty()) continue;
      const size_t cut = tokenizer->cut(text, 1 + random.below(text.size()));
      std::vector<TokenId> parts = ids_of(*tokenizer, std::string_view(text).substr(0, cut));
      const std::vector<TokenId> second = ids_of(*tokenizer, std::string_view(text).substr(cut));
      parts.insert(parts.end(), second.begin(), second.end());
      ASSERT_EQ(parts, ids_of(*tokenizer, text)) << elements.name << ", cut at " << cut << ": " << text;
    }
  }
}

TEST(Cutting, APatternThatSeesOverASpaceIsNotCutThere) {
  EXPECT_EQ(tokenizer_of({split("[a-z]+ [a-z]+|."), byte_level(false)})->cut("one two three", 1), 13u);
  EXPECT_EQ(tokenizer_of({split("[a-z]+(?= )|."), byte_level(false)})->cut("one two three", 1), 13u);
  EXPECT_EQ(tokenizer_of({split("[0-9]"), byte_level(false)})->cut("one two three", 1), 13u);
}

// tokenizers 0.23.3 leaves the digits of "x1234567!!" together with this pattern, as Oniguruma reads it.
TEST(Cutting, AnIntervalWithAPlusIsRepeatedAsInOniguruma) {
  const auto ids = [](const char* pattern) {
    return ids_of(*tokenizer_of({split(pattern), byte_level(false)}), "1212").size();
  };
  EXPECT_EQ(ids("\\p{N}{1,3}|[^\\p{N}]+"), 3u) << "12 1 2";
  EXPECT_EQ(ids("\\p{N}{1,3}+|[^\\p{N}]++"), 2u) << "12 12";
  EXPECT_ERROR(tokenizer_of({split("a{2,3}+|."), byte_level(false)}), ErrorKind::data,
               "the pattern repeats a repetition, {2,3}+, which is not supported; expected {1,m}+");
}

TEST(Cutting, IsSaidStepByStep) {
  EXPECT_THAT(tokenizer_of({byte_level(true)})->cutting(),
              ElementsAre(HasSubstr("GPT-2's pattern: tables of "), "bytes in GPT-2's alphabet"));
  EXPECT_THAT(tokenizer_of({split("[a-z]+|."), split("(?<=a)b"), byte_level(false)})->cutting(),
              ElementsAre(HasSubstr("[a-z]+|.: tables of "), "(?<=a)b: PCRE2, because it has a lookbehind",
                          "bytes in GPT-2's alphabet"));
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k) bits = bits << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) out += i + k > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * k) & 63];
  }
  return out;
}

TEST(Cutting, ATokenizerOfRanksIsWhatItWritesOfItself) {
  std::string ranks;
  int rank = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const auto c = static_cast<char>(byte);
    ranks += fmt::format("{} {}\n", base64({&c, 1}), rank++);
  }
  for (const char* token : {"th", "he", "the", " the", "aa", "aaa", "aaaa", "\u00e9", " \u00e9"})
    ranks += fmt::format("{} {}\n", base64(token), rank++);
  const auto loaded = load_tiktoken(ranks, "cl100k_base.tiktoken", "");
  const auto written = tokenizer_from_json(loaded->json(), "written");
  EXPECT_EQ(written->json(), loaded->json());
  EXPECT_THAT(loaded->json(), HasSubstr("\"a aa\",\n      \"aa a\",\n"));  // lowest ids first
  EXPECT_EQ(ids_of(*loaded, " thethe aaaaa"), (std::vector<TokenId>{259, 258, 32, 260, 261}));
  RandomStream random(19);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = random_text(random, 30);
    ASSERT_EQ(ids_of(*loaded, text), ids_of(*written, text)) << text;
    ASSERT_EQ(loaded->decode(ids_of(*loaded, text)), text);
  }
}

}  // namespace
}  // namespace trireme
