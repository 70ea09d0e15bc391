#include "text/gpt2_scanner.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <gtest/gtest.h>
#include <pcre2.h>

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/rng.h"
#include "tests/support/test_data.h"

namespace trireme {
namespace {

std::vector<std::string> scan(std::string_view text) {
  std::vector<std::string> pieces;
  for (Gpt2Scanner scanner(text); !scanner.done();) pieces.emplace_back(scanner.next());
  return pieces;
}

/// GPT-2's pattern run by the regular expression engine. PCRE2's \s has one character that White_Space has not
/// (U+180E), so the set is written out.
class Pattern {
 public:
  Pattern() {
    const std::string space =
        R"([\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}])";
    const std::string no_space = "[^" + space.substr(1);
    const std::string other = "[^" + space.substr(1, space.size() - 2) + R"(\p{L}\p{N}])";
    const std::string pattern = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?" + other + "+|" + space + "+(?!" +
                                no_space + ")|" + space + "+";
    int error = 0;
    PCRE2_SIZE at = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP, &error,
                          &at, nullptr);
    if (!code_) throw std::runtime_error("the pattern does not compile");
    match_ = pcre2_match_data_create_from_pattern(code_, nullptr);
  }
  ~Pattern() {
    pcre2_match_data_free(match_);
    pcre2_code_free(code_);
  }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  std::vector<std::string> split(std::string_view text) const {
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const int count = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                    at == 0 ? 0 : PCRE2_NO_UTF_CHECK, match_, nullptr);
      if (count < 0) throw std::runtime_error("no match");
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match_);
      if (range[0] != at) throw std::runtime_error("a gap");
      pieces.emplace_back(text.substr(range[0], range[1] - range[0]));
      at = range[1];
    }
    return pieces;
  }

 private:
  pcre2_code* code_;
  pcre2_match_data* match_;
};

using Pieces = std::vector<std::string>;

TEST(Gpt2Scanner, KeepsTheSpaceWithTheWordAfterIt) {
  EXPECT_EQ(scan("Hello world 42 !?"), (Pieces{"Hello", " world", " 42", " !?"}));
}

TEST(Gpt2Scanner, CutsContractionsOnlyInLowerCase) {
  EXPECT_EQ(scan("it's we'll I'VE 's"), (Pieces{"it", "'s", " we", "'ll", " I", "'", "VE", " '", "s"}));
}

TEST(Gpt2Scanner, LeavesTheLastSpaceOfARunToTheNextWord) {
  EXPECT_EQ(scan("a   b\n\n c  "), (Pieces{"a", "  ", " b", "\n\n", " c", "  "}));
  EXPECT_EQ(scan("a\n\nb"), (Pieces{"a", "\n", "\n", "b"}));
}

TEST(Gpt2Scanner, TakesInvalidBytesAsOtherCharacters) {
  EXPECT_EQ(scan("a\xff\xfe b"), (Pieces{"a", "\xff\xfe", " b"}));
  EXPECT_EQ(scan(" \xe2\x82"), (Pieces{" \xe2\x82"}));
}

TEST(Gpt2Scanner, AgreesWithTheRegexOnRandomText) {
  const Pattern pattern;
  // Characters on both sides of every border of the pattern, in scripts of one to four bytes.
  const std::vector<std::string> alphabet = {
      " ",      " ",      "\n",         "\t",     "\r",     "'",      "s",      "t",          "r",
      "e",      "v",      "l",          "m",      "d",      "A",      "z",      "0",          "9",
      ".",      "-",      "_",          "\u00e9", "\u00a0", "\u2003", "\u3000", "\u0301",     "\u0663",
      "\u00bd", "\u4e2d", "\U0001f600", "\u200d", "\u180e", "\u0085", "\u001c", "\U00010400", "\u2028"};
  RandomStream random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (uint64_t i = random.below(24); i > 0; --i) text += alphabet[random.below(alphabet.size())];
    ASSERT_EQ(scan(text), pattern.split(text)) << text;
  }
}

TEST(Gpt2Scanner, AgreesWithTheRegexOnRealText) {
  TRIREME_NEEDS_TEST_DATA("unicode/blns.txt");
  const Pattern pattern;
  for (const char* name : {"unicode/blns.txt", "unicode/mars.thai.txt", "unicode/mars.hebrew.txt",
                           "unicode/Emoji-Lipsum.txt", "text/wikitext2.test.txt", "unicode/UTF-8-demo_kuhn.txt"}) {
    const std::string text = read_text((test_data_dir() / name).string());
    ASSERT_EQ(scan(text), pattern.split(text)) << name;
  }
}

}  // namespace
}  // namespace trireme
