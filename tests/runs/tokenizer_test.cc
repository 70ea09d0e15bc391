// `trireme tokenizer`, as a user runs it.

#include <gmock/gmock.h>

#include "tests/runs/program.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

Outcome tokenizer(std::vector<std::string> words) {
  words.insert(words.begin(), "tokenizer");
  return run(trireme_command(std::move(words)));
}

/// The 256 bytes as a rank file, with two tokens of two letters.
void write_ranks(const std::string& path) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string ranks;
  for (size_t byte = 0; byte < 256; ++byte)
    ranks += fmt::format("{}{}== {}\n", kDigits[byte >> 2], kDigits[(byte & 3) << 4], byte);
  write_text(path, ranks + "YWE= 256\nYWFhYQ== 257\n");
}

TEST(TokenizerShow, SaysHowTextIsCut) {
  const TemporaryFolder folder;
  const std::string path = folder / "ranks.tiktoken";
  write_ranks(path);
  const Outcome tables = tokenizer({"show", "--tokenizer", path, "--pattern", "[a-z]+|."});
  EXPECT_EQ(tables.code, 0);
  EXPECT_THAT(tables.output, HasSubstr(path + ": 258 ids\ntext is split into pieces by\n  [a-z]+|.: tables of "));
  const Outcome engine = tokenizer({"show", "--tokenizer", path, "--pattern", "(?<=a)b|."});
  EXPECT_EQ(engine.code, 0);
  EXPECT_THAT(engine.output, HasSubstr("  (?<=a)b|.: PCRE2, because it has a lookbehind\n"));
}

TEST(TokenizerEncode, OneWordOf20MegabytesTakesNoMoreThanItselfAndItsIds) {
  const TemporaryFolder folder;
  const std::string path = folder / "ranks.tiktoken", text = folder / "text.txt";
  write_ranks(path);
  std::string word;
  word.resize(20'000'000, 'a');
  write_text(text, word);
  const Outcome outcome = tokenizer({"encode", "--tokenizer", path, "--pattern", "[a-z]+|.", text});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output.substr(0, 100), HasSubstr("[257, 257, 257, "));
  // The line, its ids twice while their list grows, and the numbers as text.
  if (kMemoryCounts) {
    EXPECT_LT(outcome.peak_rss, size_t{200} << 20);
  }
}

}  // namespace
}  // namespace trireme
