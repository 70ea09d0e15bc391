#include "text/regex/regex.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/files/tiktoken.h"
#include "text/pipeline/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace trireme {
namespace {

struct Case {
  const char *pattern, *behavior, *text;
  const char* pieces;  // with | between
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.pattern << " " << c.behavior << " \"" << c.text << "\""; }

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

class Pieces final : public PieceSink {
 public:
  void piece(std::string_view text, bool) override { (joined += joined.empty() ? "" : "|") += text; }
  std::string joined;
};

/// Pieces like those of Hugging Face's Split.
const std::vector<Case>& cases() {
  static const std::vector<Case> list{
      {R"(\p{Han}+)", "Isolated", "中文、。《a》〇人々ひ", "中文|、。《a》|〇人々|ひ"},
      {R"(\p{Han}+)", "Removed", "中、文", "、"},
      {R"([\p{Hiragana}\p{Katakana}]+)", "Isolated", "ひらーカナ、a", "ひら|ー|カナ|、a"},
      {R"(\P{Greek}+)", "Isolated", "abΑβ1", "ab|Αβ|1"},
      {R"(\p{^Han}+)", "Isolated", "a、中b", "a、|中|b"},
      {R"((?=(\d{3})+(?!\d)))", "Isolated", "1234567 12", "1|234|567 12"},
      {R"((?=[A-Z]))", "MergedWithPrevious", "aBcDe", "a|Bc|De"},
      {R"((?=[A-Z]))", "Removed", "aBcDe", "a|Bc|De"},
      {R"((?<=\n))", "Contiguous", "a\n\nb\n", "a\n|\n|b\n"},
      {R"(a*)", "Isolated", "baac", "b|aa|c"},
      {R"(a*)", "MergedWithNext", "baac", "b|aac"},
      {R"(\b)", "Isolated", "ab, cd", "ab|, |cd"},
      {R"(^)", "Isolated", "a\nb\n", "a\n|b\n"},
      {R"($)", "Isolated", "a\nb\n", "a|\nb|\n"},
      {R"(^\s+)", "Removed", " a\n  b", "a\n|b"},
      {R"(b$)", "Isolated", "ab\nbb", "a|b|\nb|b"},
      {R"(\s+$)", "Isolated", "a \n b  ", "a| |\n b|  "},
      {R"((?m:a.b))", "Isolated", "a\nb", "a\nb"},
      {R"(\Aa|b\z)", "Isolated", "aab\nab", "a|ab\na|b"},
      {R"(\w+)", "Isolated", "aⓐ²ⅷ\u200da_b", "aⓐ²ⅷ|\u200d|a_b"},
      {R"([\w]+)", "Isolated", "aⓐ²ⅷ\u200da_b", "aⓐ|²|ⅷ|\u200d|a_b"},
      {R"(\W+)", "Isolated", "aⓐ²ⅷ\u200da_b", "aⓐ²ⅷ|\u200d|a_b"},
      {R"([^\W\d_]+)", "Isolated", "aé\u0301ⓐ1_b", "aé\u0301ⓐ|1_|b"},
      {R"([^\S\n]+)", "Isolated", "a \t\u3000\nb", "a| \t\u3000|\nb"},
      {R"(\b²)", "Isolated", "²a", "²|a"},
      {R"(\h+)", "Isolated", "face g 0x1F", "face| g |0|x|1F"},
      {R"([\H]+)", "Isolated", "face gh", "face| gh"},
      {R"(\v)", "Isolated", "a\v\nb", "a|\v|\nb"},
      {R"([\u4e00-\u9fff]+)", "Isolated", "a中文b", "a|中文|b"},
      {R"(a{,2}b)", "Isolated", "caaab", "ca|aab"},
      {R"([^]a]+)", "Isolated", "xy]a", "xy|]a"}};
  return list;
}

/// Oniguruma's results for patterns in Hugging Face's Split.
class PatternsOfOniguruma : public testing::TestWithParam<Case> {};

TEST_P(PatternsOfOniguruma, CutTheSame) {
  const auto [pattern, behavior, text, pieces] = GetParam();
  const JsonNode json = parse_json_node(
      fmt::format(R"({{"type": "Split", "pattern": {{"Regex": {}}}, "behavior": "{}", "invert": false}})",
                  quoted(pattern), behavior),
      "test");
  Pieces sink;
  make_pre_tokenizer(JsonObject(json, "test"), false).pre_tokenizer->split(text, true, sink);
  EXPECT_EQ(sink.joined, pieces);
}

INSTANTIATE_TEST_SUITE_P(Regex, PatternsOfOniguruma, testing::ValuesIn(cases()));

TEST(Regex, FindsTheSameMatchesWithoutTables) {
  for (const auto& [pattern, behavior, text, pieces] : cases()) {
    if (std::string_view(behavior) != "Isolated") continue;  // the others only change the treatment of matches
    const std::string_view view = text;
    Pieces sink;
    size_t from = 0;
    const auto give = [&](size_t to) {
      if (to > from) sink.piece(view.substr(from, to - from), false);
      from = to;
    };
    for_each_match(Regex(pattern, "test"), view, [&](size_t begin, size_t end) {
      give(begin);
      give(end);
    });
    give(view.size());
    EXPECT_EQ(sink.joined, pieces) << pattern;
  }
}

TEST(Regex, BordersInAPatternOfTiktokenAreThoseOfTheText) {
  const auto tokenizer =
      load_tiktoken("YQ== 0\nYg== 1\nCg== 2\nYmI= 3\nYWI= 4\n", "x.tiktoken", "^a|b$|[$^]|ab|bb|\\s");
  EXPECT_THAT(tokenizer->cutting(), testing::Contains(testing::HasSubstr("\\Aa|b\\z|[$^]|ab|bb|\\s: ")));
  EXPECT_THAT(tokenizer->encode("a\nab\nbb").ids, testing::ElementsAre(0, 2, 4, 2, 3));
}

TEST(Regex, APatternMayHaveMoreGroupsThanOneThatWasFreedBefore) {
  std::string pattern = "a";
  for (int groups = 0; groups < 6; ++groups) {
    const auto regex = std::make_unique<Regex>(pattern, "test");  // at the address of the one before, as it happens
    Regex::Match match{};
    EXPECT_TRUE(Regex::Search(*regex, "ba").next(0, match)) << pattern;
    EXPECT_EQ(match.begin, 1U);
    pattern = "(" + pattern + ")";
  }
}

}  // namespace
}  // namespace trireme
