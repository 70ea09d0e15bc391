#include "base/printable.h"

#include <gtest/gtest.h>

#include <string>

namespace trireme {
namespace {

using namespace std::string_literals;

TEST(Printable, KeepsTextOfAnyScript) {
  const std::string text = "größer, 日本語 \U0001F600\n\tline";
  EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("\xFF\xFEjunk"), "\\xff\\xfejunk");
  EXPECT_EQ(printable("a\xE6\x97"), "a\\xe6\\x97") << "cut in a character";
  EXPECT_EQ(printable("\xC0\x80 \xED\xA0\x80 \xF4\x90\x80\x80"), "\\xc0\\x80 \\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80")
      << "too long, a surrogate, beyond Unicode";
}

TEST(Printable, EscapesNulAndOtherControlCharacters) {
  EXPECT_EQ(printable("a\0b\r\x07\x7F\xC2\x9B"s), "a\\x00b\\x0d\\x07\\x7f\\xc2\\x9b");
  EXPECT_EQ(printable("abc\u202Edef"), "abc\\u{202e}def");
}

TEST(Printable, RemovesControlSequencesOfTerminals) {
  EXPECT_EQ(printable("\x1b[31;1mred\x1b[0m"), "red");
  EXPECT_EQ(printable("\x1b]0;title\atext"), "text");
  EXPECT_EQ(printable("\x1b]8;;http://x\x1b\\link"), "link");
  EXPECT_EQ(printable("\x1bPq#0\x1b\\left\x1b"), "left");
  EXPECT_EQ(printable("\x1b]no end"), "no end");
}

std::string repeated(char c, size_t count) { return std::string(count, c); }

TEST(Printable, LeavesTheMiddleOfLongTextOut) {
  const std::string text = "file.json: " + repeated('a', 9'000'000) + ": what to do";
  const std::string shown = printable(text);
  EXPECT_LT(shown.size(), kMostErrorBytes + 200);
  EXPECT_TRUE(shown.starts_with("file.json: aaa"));
  EXPECT_TRUE(shown.ends_with(": what to do"));
  EXPECT_NE(shown.find("9000023 bytes in total"), std::string::npos);
  EXPECT_LT(printable(repeated('\xFF', 9'000'000)).size(), kMostErrorBytes + 200) << "escapes are longer";
}

TEST(Printable, ChangesNothingTheSecondTime) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  EXPECT_EQ(printable(printable(bytes)), printable(bytes));
}

}  // namespace
}  // namespace trireme
