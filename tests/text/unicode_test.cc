#include "text/unicode.h"

#include <gtest/gtest.h>

#include "text/byte_alphabet.h"

namespace trireme {
namespace {

Decoded decode(std::string_view text) { return decode_utf8(text.data(), text.data() + text.size()); }

TEST(Unicode, ReadsBackEveryCodePoint) {
  for (char32_t code = 0; code < kInvalidCode; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text;
    append_utf8(code, text);
    const Decoded decoded = decode(text);
    ASSERT_EQ(decoded.code, code);
    ASSERT_EQ(decoded.length, text.size());
  }
}

TEST(Unicode, TakesInvalidBytesOneByOne) {
  for (const char* text : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
                           "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xff", "\xe2\x82", "\xc3("}) {
    EXPECT_EQ(decode(text).code, kInvalidCode);
    EXPECT_EQ(decode(text).length, 1u);
  }
  EXPECT_EQ(count_code_points("a\xe2\x82\u00e9"), 4u);
}

TEST(Unicode, ClassesHoldTheCharactersOfThePatterns) {
  const CharTable& table = char_table();
  EXPECT_EQ(table[U'a'], kLetter | kWord);
  EXPECT_EQ(table[0x4E2D], kLetter | kWord);
  EXPECT_EQ(table[0xBD], kNumber);
  EXPECT_TRUE(table[0x3000] & kSpace);
  EXPECT_FALSE(table[0x180E] & kSpace);
  EXPECT_FALSE(table[0x1C] & kSpace);
  EXPECT_TRUE(table[0x301] & kNonspacing);
  EXPECT_EQ(table[kInvalidCode], 0);
}

TEST(ByteAlphabet, SpellsAndReadsEveryByte) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  std::string back;
  EXPECT_TRUE(read_spelling(spell_bytes(all), back));
  EXPECT_EQ(back, all);
  EXPECT_EQ(spell_bytes(" \n"), "\u0120\u010a");
}

TEST(ByteAlphabet, LeavesOtherSpellingsAlone) {
  std::string out = "before";
  EXPECT_FALSE(read_spelling("a b", out));
  EXPECT_EQ(out, "before");
}

}  // namespace
}  // namespace trireme
