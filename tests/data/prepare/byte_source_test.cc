#include "data/prepare/byte_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/rng.h"
#include "data/prepare/text_border.h"
#include "tests/support/archives.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"

namespace trireme {
namespace {

using testing::HasSubstr;

class Sources : public testing::Test {
 protected:
  Sources() {
    RandomStream random(2);
    while (text_.size() < 1'500'000) text_ += std::to_string(random.below(1000)) + " ";
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string read(const std::string& name, const std::string& bytes) const {
    write_text(path(name), bytes);
    const auto source = open_source(path(name));
    std::string all;
    std::vector<char> buffer(77777);
    while (const size_t n = source->read(buffer.data(), buffer.size())) all.append(buffer.data(), n);
    EXPECT_EQ(source->consumed(), bytes.size());
    return all;
  }
  std::string error(const std::string& name, const std::string& bytes) const {
    try {
      read(name, bytes);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::data);
      return e.what();
    }
    return "no error";
  }

  TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
  std::string text_;
};

TEST_F(Sources, ReadPlainAndCompressedFiles) {
  EXPECT_EQ(read("a.txt", text_), text_);
  EXPECT_EQ(read("a.txt.gz", gzip(text_)), text_);
  EXPECT_EQ(read("a.txt.zst", zstd(text_)), text_);
}

TEST_F(Sources, ReadConcatenatedMembers) {
  EXPECT_EQ(read("a.gz", gzip("one ") + gzip(text_) + gzip("end")), "one " + text_ + "end");
  EXPECT_EQ(read("a.zst", zstd("one ") + zstd(text_)), "one " + text_);
}

TEST_F(Sources, IgnoreZerosAfterTheEndAndNameOtherBytes) {
  for (const size_t zeros : {size_t{1}, size_t{511}, size_t{1} << 19}) {
    const std::string padding(zeros, '\0');
    EXPECT_EQ(read("a.gz", gzip(text_) + padding), text_) << zeros;
    EXPECT_EQ(read("a.zst", zstd(text_) + padding), text_) << zeros;
    EXPECT_EQ(read("b.gz", gzip("x") + padding + gzip("y")), "xy") << zeros;
    EXPECT_EQ(read("b.zst", zstd("x") + padding + zstd("y")), "xy") << zeros;
    EXPECT_THAT(
        error("c.gz", gzip("x") + padding + "garbage"),
        HasSubstr(fmt::format("c.gz: from byte {} on, after the end of its compressed data, it has bytes that are "
                              "neither gzip data nor zeros",
                              gzip("x").size() + zeros)));
    EXPECT_THAT(error("c.zst", zstd("x") + padding + "garbage"),
                HasSubstr(fmt::format("c.zst: from byte {} on, after the end of its", zstd("x").size() + zeros)));
  }
}

/// A frame with a window of 2^log bytes: its header, a raw block.
std::string zstd_frame(unsigned log, const std::string& text) {
  const size_t block = text.size() << 3 | 1;
  return std::string("\x28\xb5\x2f\xfd\0", 5) + static_cast<char>((log - 10) << 3) + static_cast<char>(block) +
         static_cast<char>(block >> 8) + static_cast<char>(block >> 16) + text;
}

TEST_F(Sources, ReadEveryWindowAndSkipFramesOfOthers) {
  for (const unsigned log : {10U, 27U, 28U, 31U}) EXPECT_EQ(read("a.zst", zstd_frame(log, "text\n")), "text\n") << log;
  const std::string skipped = std::string("\x5e\x2a\x4d\x18\7\0\0\0", 8) + "skipped";
  EXPECT_EQ(read("b.zst", skipped + zstd("one ") + skipped + zstd_frame(31, "two") + skipped), "one two");
  EXPECT_EQ(read("c.zst", skipped), "");
  EXPECT_THAT(error("d.zst", skipped + "garbage"), HasSubstr("d.zst: from byte 15 on, after the end of its"));
  EXPECT_THAT(error("e.zst", skipped.substr(0, 12)), HasSubstr("e.zst ends in the middle of its compressed data"));
}

TEST_F(Sources, ReadWhatZstdWritesWithALongWindow) {
  TRIREME_NEEDS_TEST_DATA("field4/data/g12-long31.jsonl.zst");
  const auto source = open_source((test_data_dir() / "field4/data/g12-long31.jsonl.zst").string());
  std::vector<char> buffer(1000);
  ASSERT_GT(source->read(buffer.data(), buffer.size()), 0U);
  EXPECT_EQ(buffer[0], '{');
}

TEST_F(Sources, NameDamagedAndTruncatedFiles) {
  const std::string gz = gzip(text_), zst = zstd(text_);
  EXPECT_THAT(error("a.gz", gz.substr(0, gz.size() / 2)), HasSubstr("a.gz ends in the middle of its compressed data"));
  EXPECT_THAT(error("a.zst", zst.substr(0, zst.size() / 2)), HasSubstr("a.zst ends in the middle"));
  EXPECT_THAT(error("a.gz", "plain text"), HasSubstr("a.gz is not gzip data, which its name promises"));
  EXPECT_THAT(error("a.zst", "plain text"), HasSubstr("a.zst is not zstd data, which its name promises"));
  EXPECT_THAT(error("a.gz", std::string(100, '\0')), HasSubstr("a.gz is not gzip data"));
  std::string flipped = gz;
  flipped[gz.size() / 2] = static_cast<char>(flipped[gz.size() / 2] ^ 0x55);
  EXPECT_NE(error("a.gz", flipped), "no error");
}

TEST_F(Sources, TrainingCharactersAreCountedInCompressedTextToo) {
  write_text(path("b.txt.gz"), gzip("\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9z"));
  EXPECT_EQ(training_characters(path("b.txt.gz"), 0.9), 9u);
  EXPECT_EQ(training_characters(path("b.txt.gz"), 0.25), 2u);
}

TEST_F(Sources, AllThreadsCountTheCharactersOfALongText) {
  std::string text;
  for (uint32_t i = 0; text.size() < 40'000'000; ++i) text += i % 3 == 0 ? "\u4e2d" : "a b";
  write_text(path("long.txt"), text);
  const uint64_t expected = count_characters(text) / 2;
  EXPECT_EQ(training_characters(path("long.txt"), 0.5, 3), expected);
  EXPECT_EQ(training_characters(path("long.txt"), 0.5, 1), expected);
}

TEST_F(Sources, CharactersAreFoundWhereCountingEachOfThemFindsThem) {
  std::string text;
  for (uint32_t i = 0; text.size() < 20'000; ++i)
    text += i % 7 == 0 ? "\u00e9" : i % 11 == 0 ? "\u4e2d" : i % 13 == 0 ? "\U0001f600" : i % 17 == 0 ? "\x80" : "a";
  size_t characters = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if ((static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) continue;
    EXPECT_EQ(find_character(text, characters), at);
    ++characters;
  }
  EXPECT_EQ(count_characters(text), characters);
}

}  // namespace
}  // namespace trireme
