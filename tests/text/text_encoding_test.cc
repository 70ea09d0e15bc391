// Recognizes evident encodings of text; occasional invalid bytes in UTF-8 are not evidence.
#include "text/text_encoding.h"

#include <gmock/gmock.h>
#include <iconv.h>

#include "base/rng.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

/// UTF-8 converted to another encoding by iconv.
std::string in(const char* encoding, std::string text) {
  const iconv_t state = iconv_open(encoding, "UTF-8");
  std::string out(4 * text.size() + 16, '\0');
  char *from = text.data(), *to = out.data();
  size_t left = text.size(), room = out.size();
  EXPECT_EQ(iconv(state, &from, &left, &to, &room), 0u) << encoding;
  iconv_close(state);
  out.resize(out.size() - room);
  return out;
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

const std::string kGerman = repeated("Größe, naïve café – “quoted” text.\n", 20);
const std::string kFrench = repeated("Où est l'élève? Ça va très bien, merci à vous.\n", 20);
const std::string kEnglish = repeated("It is a truth universally acknowledged.\n", 20);
const std::string kRussian = repeated("Все счастливые семьи похожи друг на друга.\n", 20);
const std::string kJapanese = repeated("吾輩は猫である。名前はまだ無い。\n", 20);
const std::string kTraditional = repeated("這是繁體中文的文章。\n", 20);
const std::string kKorean = repeated("모든 행복한 가정은 서로 닮았다.\n", 20);
const std::string kCzech = repeated("Příliš žluťoučký kůň úpěl ďábelské ódy.\n", 20);
const std::string kChinese = repeated("道可道，非常道。名可名，非常名。\n", 20);

std::string judged(const std::string& bytes, size_t block = SIZE_MAX) {
  EncodingJudge judge;
  for (size_t at = 0; at < bytes.size(); at += std::min(block, bytes.size() - at))
    judge.add(std::string_view(bytes).substr(at, block));
  const auto found = judge.verdict(true);
  return !found ? "UTF-8" : found->name.empty() ? "other" : found->name;
}

TEST(TextEncoding, OtherEncodingsAreNamed) {
  const std::string latin = kFrench;
  struct Encoded {
    const char *encoding, *named;
    std::string text;
  };
  const Encoded cases[] = {
      {"UTF-16LE", "UTF-16LE", kEnglish},    {"UTF-16BE", "UTF-16BE", kEnglish},
      {"UTF-16LE", "UTF-16LE", kGerman},     {"UTF-16BE", "UTF-16BE", kFrench},
      {"UTF-32LE", "UTF-32LE", kEnglish},    {"UTF-32BE", "UTF-32BE", kGerman},
      {"UTF-32LE", "UTF-32LE", kRussian},    {"UTF-32BE", "UTF-32BE", kChinese},
      {"UTF-16LE", "UTF-16LE", kChinese},  // few NULs
      {"UTF-16BE", "UTF-16BE", kChinese},    {"UTF-16LE", "UTF-16LE", kJapanese},
      {"UTF-16BE", "UTF-16BE", kKorean},     {"UTF-16LE", "UTF-16LE", kRussian},
      {"UTF-16BE", "UTF-16BE", kRussian},    {"CP1252", "windows-1252", kGerman},
      {"ISO-8859-1", "ISO-8859-1", kFrench}, {"ISO-8859-15", "ISO-8859-1", kFrench},
      {"CP1251", "windows-1251", kRussian},  {"KOI8-R", "KOI8-R", kRussian},
      {"GB18030", "other", kChinese},        {"SHIFT_JIS", "other", kJapanese},
      {"EUC-JP", "other", kJapanese},        {"BIG5", "other", kTraditional},
      {"EUC-KR", "other", kKorean},          {"CP1250", "other", kCzech},
      {"MACINTOSH", "other", kFrench},
  };
  for (const Encoded& c : cases) {
    const std::string bytes = in(c.encoding, c.text);
    EXPECT_EQ(judged(bytes), c.named) << c.encoding << ": " << c.text.substr(0, 20);
    EXPECT_EQ(judged(bytes, 7), c.named) << "in blocks of seven bytes, " << c.encoding;
    std::string back;
    Transcoder transcoder(known_encoding(c.encoding), "x.txt");
    for (size_t at = 0; at < bytes.size(); at += 5)
      transcoder.convert(std::string_view(bytes).substr(at, 5), at + 5 >= bytes.size(), back);
    EXPECT_EQ(back, c.text) << c.encoding;
  }
  for (const std::string& text : {kEnglish, kGerman, kRussian, kChinese}) {  // with their mark
    EXPECT_EQ(judged("\xFF\xFE" + in("UTF-16LE", text)), "UTF-16LE");
    EXPECT_EQ(judged("\xFE\xFF" + in("UTF-16BE", text)), "UTF-16BE");
    EXPECT_EQ(judged(std::string("\xFF\xFE\0\0", 4) + in("UTF-32LE", text)), "UTF-32LE");
    EXPECT_EQ(judged(std::string("\0\0\xFE\xFF", 4) + in("UTF-32BE", text)), "UTF-32BE");
    EXPECT_EQ(as_utf8("\xFF\xFE" + in("UTF-16LE", text), "UTF-16", true, "x"), text);
    EXPECT_EQ(as_utf8("\xFE\xFF" + in("UTF-16BE", text), "UTF-16BE", true, "x"), text) << "the mark is not text";
  }
}

TEST(TextEncoding, Utf8WithOddBytesIsUnchanged) {
  RandomStream random(5);
  std::string bits;
  for (int i = 0; i < 5000; ++i) bits += static_cast<char>(random.below(2));
  const std::string cases[] = {
      "",
      "a",
      kEnglish,
      kGerman,
      kRussian,
      kChinese,
      "\xEF\xBB\xBF" + kGerman,
      repeated(std::string("abc\0def\n", 8), 20),
      std::string(1000, '\0'),
      kGerman + "\xFF" + kGerman,
      kEnglish + "caf\xE9 " + kEnglish,
      "\xFF\xFE\xC3(\xED\xA0\x80 lone\t" + kEnglish,
      "\xFF\xFE" + kEnglish,
      kEnglish + "\xF4\x90\x80\x80",
      kRussian.substr(0, kRussian.size() - 2),
      repeated(kEnglish, 3000) + "caf\xE9 caf\xE9 caf\xE9 caf\xE9",
      bits,
      repeated("\x1b[31mred\x1b[0m\n", 50),
  };
  for (const std::string& text : cases) {
    EXPECT_EQ(judged(text), "UTF-8") << testing::PrintToString(text.substr(0, 40));
    EXPECT_EQ(judged(text, 3), "UTF-8") << testing::PrintToString(text.substr(0, 40));
    EXPECT_EQ(as_utf8(text, "", true, "x"), text);
  }
}

TEST(TextEncoding, BytesThatAreNoTextInAnyEncodingAreRefused) {
  RandomStream random(5);
  for (const int bytes : {256, 5000, 100'000}) {
    std::string noise;
    for (int i = 0; i < bytes; ++i) noise += static_cast<char>(random.below(256));
    EXPECT_EQ(judged(noise), "other") << bytes;
    EXPECT_EQ(judged(noise, 3), "other") << bytes;
    EXPECT_ERROR(as_utf8(noise, "", true, "x.txt"), ErrorKind::data, "x.txt: not text: ");
    EXPECT_ERROR(as_utf8(noise, "", true, "x.txt"), ErrorKind::data, " are control characters; give a text file");
    EXPECT_EQ(as_utf8(noise, "", false, "x.txt"), noise) << "--encoding utf-8";
  }
  EXPECT_EQ(judged(repeated("\x80\x81\xFF\x01", 500)), "other");
  EXPECT_EQ(judged(std::string("\x80\x01\xFF")), "UTF-8") << "too few bytes to judge";
}

TEST(TextEncoding, TheErrorSaysWhereAndWhatToDo) {
  EXPECT_ERROR(as_utf8(in("CP1252", kGerman), "", true, "a.txt"), ErrorKind::data,
               "a.txt: not UTF-8 from byte 2 on: it seems to be text in windows-1252 (140 of the first 700 bytes are "
               "not UTF-8); read it with --encoding windows-1252, or use the bytes unchanged with --encoding utf-8");
  EXPECT_ERROR(as_utf8(in("GB18030", kChinese), "", true, "a.txt"), ErrorKind::data, "in another encoding (");
  EXPECT_EQ(as_utf8(in("CP1252", kGerman), "", false, "a.txt"), in("CP1252", kGerman));
  EXPECT_ERROR(known_encoding("latin-99"), ErrorKind::usage, "--encoding latin-99: unknown to this system");
  EXPECT_ERROR(known_encoding("../x"), ErrorKind::usage, "unknown to this system");
  EXPECT_EQ(known_encoding("utf8"), "");
  EXPECT_ERROR(as_utf8("abc\xFFxyz", "SHIFT_JIS", true, "a.txt"), ErrorKind::data, "a.txt: byte 3 is not SHIFT_JIS");
  EXPECT_ERROR(as_utf8(std::string("a\0b", 3), "UTF-16LE", true, "a.txt"), ErrorKind::data,
               "a.txt: the text ends within a character of UTF-16LE, at byte 2");
}

TEST(TextEncoding, OfLinesATenthIsEvidence) {
  std::string few, many;
  for (int i = 0; i < 100; ++i) {
    few += i % 25 == 3 ? "{\"text\": \"caf\xE9\"}\n" : "{\"text\": \"plain\"}\n";
    many += i % 5 == 3 ? "{\"text\": \"caf\xE9\"}\n" : "{\"text\": \"plain\"}\n";
  }
  const auto judged_lines = [](const std::string& text) {
    EncodingJudge judge(true);
    judge.add(text);
    return judge.verdict(true).has_value();
  };
  EXPECT_FALSE(judged_lines(few)) << "such lines are skipped and named";
  EXPECT_TRUE(judged_lines(many));
}

}  // namespace
}  // namespace trireme
