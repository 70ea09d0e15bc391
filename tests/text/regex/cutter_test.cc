#include "text/regex/cutter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pcre2.h>
#include <utf8proc.h>

#include <cctype>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/rng.h"
#include "tests/support/test_data.h"
#include "tests/text/regex/model_patterns.h"
#include "text/byte_alphabet.h"
#include "text/regex/code_set.h"
#include "text/regex/pattern_tree.h"
#include "text/regex/regex.h"

namespace trireme {
namespace {

using Cut = std::pair<size_t, bool>;  // end of a part, and whether it is a match

/// Joins adjacent parts without a match: invalid bytes end a search, but not the text between matches.
void add_cut(std::vector<Cut>& cuts, size_t end, bool matched) {
  if (!matched && !cuts.empty() && !cuts.back().second) cuts.pop_back();
  cuts.emplace_back(end, matched);
}

std::vector<Cut> cuts_of_tables(const Cutter& cutter, std::string_view text) {
  std::vector<Cut> cuts;
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const Cutter::Part part = cutter.next(p, end);
    p = part.end;
    add_cut(cuts, static_cast<size_t>(p - text.data()), part.matched);
  }
  return cuts;
}

std::vector<Cut> cuts_of_pcre2(const Regex& regex, std::string_view text) {
  std::vector<Cut> cuts;
  for_each_valid_run(text, [&](std::string_view run, bool valid) {
    const auto offset = static_cast<size_t>(run.data() - text.data());
    size_t at = 0;
    if (valid) {
      Regex::Search search(regex, run);
      for (Regex::Match match{}; at < run.size() && search.next(at, match); at = match.end) {
        if (match.begin > at) add_cut(cuts, offset + match.begin, false);
        add_cut(cuts, offset + match.end, true);
      }
    }
    if (at < run.size()) add_cut(cuts, offset + run.size(), false);
  });
  return cuts;
}

/// The code points that PCRE2 finds in a set.
CodeSet set_of_pcre2(const std::string& pattern) {
  static const auto all = [] {
    std::pair<std::string, std::vector<char32_t>> text;  // and the code point of each byte
    for (char32_t code = 0; code < kInvalidCode; ++code) {
      if (code < 0xD800 || code >= 0xE000) append_utf8(code, text.first);
      text.second.resize(text.first.size(), code);
    }
    return text;
  }();
  const Regex regex(pattern, "test");
  Regex::Search search(regex, all.first);
  std::vector<CodeSet::Range> ranges;
  size_t at = 0;
  for (Regex::Match match{}; at < all.first.size() && search.next(at, match); at = match.end)
    ranges.push_back({all.second[match.begin], all.second[match.end - 1]});
  CodeSet set(std::move(ranges));
  return set;
}

/// Characters missing from PCRE2's or utf8proc's tables, which have different versions of Unicode.
const CodeSet& young_characters() {
  static const CodeSet set = [] {
    const CodeSet theirs = set_of_pcre2("\\p{Cn}+"), ours = *CodeSet::category("Cn");
    std::vector<CodeSet::Range> young;
    for (char32_t code = 0; code < kInvalidCode; ++code) {
      if ((code < 0xD800 || code >= 0xE000) && theirs.contains(code) != ours.contains(code))
        young.push_back({code, code});
    }
    return CodeSet(std::move(young));
  }();
  return set;
}

std::string first_difference(std::string_view text, const std::vector<Cut>& a, const std::vector<Cut>& b) {
  size_t i = 0;
  while (i < a.size() && i < b.size() && a[i] == b[i]) ++i;
  const size_t begin = i == 0 ? 0 : a[i - 1].first;
  return fmt::format("after byte {}: \"{}\", tables end at {}, PCRE2 at {}", begin, text.substr(begin, 40),
                     i < a.size() ? a[i].first : 0, i < b.size() ? b[i].first : 0);
}

class ModelPatterns : public testing::TestWithParam<test::ModelPattern> {
 protected:
  void expect_same(std::string_view text) const {
    const auto ours = cuts_of_tables(cutter_, text), theirs = cuts_of_pcre2(regex_, text);
    ASSERT_TRUE(ours == theirs) << first_difference(text, ours, theirs);
  }

  const Cutter cutter_{GetParam().pattern, Cutter::Text::utf8};
  const Regex regex_{GetParam().for_pcre2.empty() ? GetParam().pattern : GetParam().for_pcre2, "test"};
};

TEST_P(ModelPatterns, CutEveryCharacterOfUnicodeAsPcre2) {
  std::string text;
  for (char32_t code = 0; code < kInvalidCode; ++code) {
    if ((code >= 0xD800 && code < 0xE000) || young_characters().contains(code)) continue;
    if (code > 0x33000 && code < 0xE0000 && code % 257 != 0) continue;  // unassigned, all alike
    if (code > 0xE0200 && code % 257 != 0) continue;                    // unassigned or private, all alike
    for (const char* before : {"a", " ", "", "\n", "'", "7", "B"}) {
      text += before;
      append_utf8(code, text);
    }
    text += "a";
    if (text.size() < (1 << 16)) continue;
    expect_same(text);
    text.clear();
  }
  expect_same(text);
}

TEST_P(ModelPatterns, CutRandomTextAsPcre2) {
  // Characters on both sides of every border of the patterns, in scripts of one to four bytes, and bytes that are none.
  const std::vector<std::string> alphabet = {
      " ",      " ",      "\n",     "\t",     "\r",         "'",      "s",      "t",        "r",      "e",
      "v",      "l",      "m",      "d",      "S",          "T",      "R",      "E",        "V",      "L",
      "M",      "D",      "A",      "z",      "0",          "9",      ".",      "-",        "_",      "/",
      "|",      "(",      "]",      "\u00e9", "\u00c9",     "\u01c5", "\u02b0", "\u017f",   "\u00a0", "\u2003",
      "\u3000", "\u0301", "\u0663", "\u00bd", "\u4e2d",     "\u3042", "\uac00", "\u060c",   "\u2026", "\U0001f600",
      "\u200d", "\u180e", "\u0085", "\u001c", "\U00010400", "\u2028", "\xff",   "\xe2\x82", "\x80",   "\xf0\x9f"};
  RandomStream random(7);
  for (int round = 0; round < 10000; ++round) {
    std::string text;
    for (uint64_t i = random.below(24); i > 0; --i) text += alphabet[random.below(alphabet.size())];
    ASSERT_NO_FATAL_FAILURE(expect_same(text)) << round;
  }
  std::string bytes;  // arbitrary
  for (int i = 0; i < 200000; ++i) bytes.push_back(static_cast<char>(random.below(256)));
  expect_same(bytes);
}

TEST_P(ModelPatterns, CutRealTextAsPcre2) {
  TRIREME_NEEDS_TEST_DATA("unicode/blns.txt");
  for (const char* name :
       {"unicode/blns.txt", "unicode/mars.thai.txt", "unicode/mars.hebrew.txt", "unicode/mars.japanese.txt",
        "unicode/mars.german.txt", "unicode/Hindi-Lipsum.txt", "unicode/Emoji-Lipsum.txt", "text/wikitext2.test.txt",
        "unicode/UTF-8-demo_kuhn.txt", "unicode/UTF-8-test_kuhn.txt"}) {
    SCOPED_TRACE(name);
    expect_same(read_text((test_data_dir() / name).string()));
  }
}

std::string test_name(const testing::TestParamInfo<test::ModelPattern>& info) {
  std::string name;
  for (const char c : std::string_view(info.param.name)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) name.push_back(c);
  }
  return name;
}
INSTANTIATE_TEST_SUITE_P(Cutter, ModelPatterns, testing::ValuesIn(test::model_patterns()), test_name);

std::string unicode_version_of_pcre2() {
  char version[32] = {};
  pcre2_config_8(PCRE2_CONFIG_UNICODE_VERSION, version);
  return version;
}

/// PCRE2 says "14.0.0" or, from 10.43 on, "14.0"; utf8proc "14.0.0".
bool unicode_versions_differ() {
  const std::string ours = utf8proc_unicode_version(), theirs = unicode_version_of_pcre2();
  return !ours.starts_with(theirs) && !theirs.starts_with(ours);
}

TEST(Cutter, HasTheCategoriesOfPcre2) {
  // A version of Unicode adds characters, and gives a few old ones another category (U+1171E was Mn until 15.1).
  EXPECT_LT(young_characters().ranges().size(), 400U);
  std::set<char32_t> different;
  for (const char* name :
       {"L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P", "S", "Z", "C"}) {
    const CodeSet theirs = set_of_pcre2(fmt::format("\\p{{{}}}+", name)), ours = *CodeSet::category(name);
    for (char32_t code = 0; code < kInvalidCode; ++code) {
      if ((code >= 0xD800 && code < 0xE000) || young_characters().contains(code)) continue;
      if (ours.contains(code) != theirs.contains(code)) different.insert(code);
    }
  }
  EXPECT_LE(different.size(), unicode_versions_differ() ? 50U : 0U)
      << "Unicode " << utf8proc_unicode_version() << " here, " << unicode_version_of_pcre2()
      << " in PCRE2, the first U+" << fmt::format("{:X}", static_cast<uint32_t>(*different.begin()));
}

/// Random expressions over a small alphabet: tables must match like PCRE2.
class RandomPattern {
 public:
  explicit RandomPattern(RandomStream& random) : random_(random) {}

  std::string choice(int depth) {
    std::string text = sequence(depth);
    for (uint64_t i = random_.below(3); i > 0; --i) text += "|" + sequence(depth);
    return text;
  }

 private:
  std::string sequence(int depth) {
    std::string text;
    for (uint64_t i = 1 + random_.below(3); i > 0; --i) {
      text += atom(depth);
      static const char* const repeats[] = {"", "", "", "?", "*", "+", "{1,3}", "{2}", "??", "*?", "+?", "++", "?+"};
      text += repeats[random_.below(std::size(repeats))];
    }
    if (random_.below(5) == 0) text += random_.below(2) == 0 ? "(?!a)" : "(?=[b ])";
    return text;
  }

  std::string atom(int depth) {
    static const char* const atoms[] = {"a", "b", " ", "[ab]", "[^a]", "\\s", "\\S", ".", "[^\\sb]", "\\p{L}", "é"};
    if (depth > 0 && random_.below(4) == 0) return (random_.below(2) == 0 ? "(?:" : "(?i:") + choice(depth - 1) + ")";
    return atoms[random_.below(std::size(atoms))];
  }

  RandomStream& random_;
};

TEST(Cutter, TakesRandomPatternsAsPcre2OrNotAtAll) {
  RandomStream random(11);
  const std::vector<std::string> alphabet = {"a", "b", "A", " ", "\n", "é", "c", "\xff"};
  int taken = 0;
  for (int round = 0; round < 8000; ++round) {
    const std::string pattern = RandomPattern(random).choice(2);
    std::unique_ptr<Cutter> cutter;
    try {
      cutter = std::make_unique<Cutter>(pattern, Cutter::Text::utf8);
    } catch (const NotForTables&) {
      continue;
    }
    ++taken;
    const Regex regex(pattern, "test");
    for (int i = 0; i < 20; ++i) {
      std::string text;
      for (uint64_t n = random.below(12); n > 0; --n) text += alphabet[random.below(alphabet.size())];
      const auto ours = cuts_of_tables(*cutter, text), theirs = cuts_of_pcre2(regex, text);
      ASSERT_TRUE(ours == theirs) << pattern << ": " << first_difference(text, ours, theirs);
    }
  }
  EXPECT_GT(taken, 1000);
}

std::string refusal(const char* pattern) {
  try {
    const Cutter cutter(pattern, Cutter::Text::utf8);
  } catch (const NotForTables& error) {
    return error.what();
  }
  return "none";
}

TEST(Cutter, SaysWhatTablesCannotDo) {
  EXPECT_EQ(refusal("(?<=a)b"), "a lookbehind");
  EXPECT_EQ(refusal("a(?!bc)"), "a lookahead of more than one character");
  EXPECT_EQ(refusal("(a)\\1"), "an escape of another kind");
  EXPECT_EQ(refusal("(?>a+)b"), "a group (?>");
  EXPECT_EQ(refusal("\\p{Han}+"), "the property Han");
  EXPECT_EQ(refusal("[\\p{L}&&[a-z]]"), "&& inside of [...]");
  EXPECT_EQ(refusal("a*"), "matches without a character");
  EXPECT_EQ(refusal("a++[ab]"), "a possessive repetition that is not the same as a greedy one");
  EXPECT_EQ(refusal("\\s+$"), "a repetition that can end without a match, which takes quadratic time");
  EXPECT_EQ(refusal("a*b|a"), "a repetition that can end without a match, which takes quadratic time");
  EXPECT_EQ(refusal("^a"), "a ^");
  EXPECT_EQ(refusal("a\\zb"), "a \\z with more after it");
  EXPECT_EQ(refusal("(?i:é)"), "(?i) over characters beyond ASCII");
  EXPECT_EQ(refusal("(((a{200}){200}){200})"), "too many steps: its repetitions multiply");
}

TEST(Cutter, ReadsBytesAsTheLettersThatSpellThem) {
  const Cutter digits("\\p{N}", Cutter::Text::spelled);
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  const Regex regex("\\p{N}", "test");
  for (const char byte : bytes) {
    Regex::Match match{};
    const std::string letter = spell_bytes({&byte, 1});
    EXPECT_EQ(digits.match(&byte, &byte + 1) != nullptr, Regex::Search(regex, letter).next(0, match)) << letter;
  }
}

TEST(Cutter, TreatsInvalidBytesAsCharactersOnRequest) {
  const Cutter cutter(test::model_patterns()[0].pattern, Cutter::Text::lenient_utf8);
  const std::string_view text = "a\xff\xfe b \xe2\x82";
  const std::vector<Cut> expected{{1, true}, {3, true}, {5, true}, {8, true}};
  EXPECT_EQ(cuts_of_tables(cutter, text), expected);
}

}  // namespace
}  // namespace trireme
