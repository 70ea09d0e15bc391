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

TEST_F(Sources, NameDamagedAndTruncatedFiles) {
  const std::string gz = gzip(text_), zst = zstd(text_);
  EXPECT_THAT(error("a.gz", gz.substr(0, gz.size() / 2)), HasSubstr("a.gz ends in the middle of its compressed data"));
  EXPECT_THAT(error("a.zst", zst.substr(0, zst.size() / 2)), HasSubstr("a.zst ends in the middle"));
  EXPECT_THAT(error("a.gz", "plain text"), HasSubstr("a.gz is damaged at byte"));
  EXPECT_THAT(error("a.zst", "plain text"), HasSubstr("a.zst is damaged near byte"));
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
