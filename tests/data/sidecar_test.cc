#include "data/sidecar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

class Sidecar : public testing::Test {
 protected:
  Sidecar() { bin_ = (folder_ / "train.bin").string(); }

  TokenSidecar sample() const {
    TokenSidecar s;
    s.tokens = 3;
    s.documents = 1;
    s.vocabulary = 50257;
    s.tokenizer_hash = "0123456789abcdef";
    s.block_bytes = 4096;
    s.block_hashes = {0xfedcba9876543210};
    s.split = "all of it";
    return s;
  }
  /// The error message of reading the text as a sidecar.
  std::string error_of(const std::string& text) const {
    write_text(sidecar_path(bin_), text);
    try {
      read_sidecar(bin_);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::data);
      return e.what();
    }
    return "";
  }
  std::string written_with(const std::string& from, const std::string& to) const {
    write_sidecar(bin_, sample());
    std::string text = read_text(sidecar_path(bin_));
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos);
    return text.replace(at, from.size(), to);
  }

  TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
  std::string bin_;
};

TEST_F(Sidecar, ReadsBackWhatWasWritten) {
  write_sidecar(bin_, sample());
  const auto read = read_sidecar(bin_);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->tokens, 3u);
  EXPECT_EQ(read->documents, 1u);
  EXPECT_EQ(read->vocabulary, 50257u);
  EXPECT_EQ(read->tokenizer_hash, "0123456789abcdef");
  EXPECT_EQ(read->dtype, "uint16");
  EXPECT_EQ(read->block_bytes, 4096u);
  EXPECT_EQ(read->block_hashes, std::vector<uint64_t>{0xfedcba9876543210});
  EXPECT_EQ(read->split, "all of it");
}

TEST_F(Sidecar, IsAbsentForABareFile) { EXPECT_FALSE(read_sidecar(bin_)); }

TEST_F(Sidecar, NamesTheMissingKey) {
  EXPECT_THAT(error_of(written_with("\"documents\"", "\"dokuments\"")),
              testing::HasSubstr("train.bin.json: key \"documents\" is missing"));
}

TEST_F(Sidecar, RefusesAHigherVersion) {
  EXPECT_THAT(error_of(written_with("\"format_version\": 1", "\"format_version\": 2")),
              testing::HasSubstr("format_version is 2, this build supports 1"));
}

TEST_F(Sidecar, RefusesAWrongNumberOfBlocks) {
  EXPECT_THAT(error_of(written_with("\"tokens\": 3", "\"tokens\": 5000")),
              testing::HasSubstr("1 block hashes, but 5000 tokens have 3 blocks"));
}

TEST_F(Sidecar, RefusesWrongTypes) {
  EXPECT_THAT(error_of(written_with("\"tokens\": 3", "\"tokens\": -3")),
              testing::HasSubstr("\"tokens\" is -3, expected an integer >= 0"));
  EXPECT_THAT(error_of(written_with("fedcba9876543210", "xedcba9876543210")), testing::HasSubstr("block hash 0"));
  EXPECT_THAT(error_of(written_with("\"uint16\"", "\"float\"")), testing::HasSubstr("dtype is \"float\""));
  EXPECT_THAT(error_of(written_with("\"block_bytes\": 4096", "\"block_bytes\": 0")),
              testing::HasSubstr("multiple of 4096"));
}

TEST_F(Sidecar, RefusesSizesThatNoFileHas) {
  EXPECT_THAT(error_of(written_with("\"vocabulary_size\": 50257", "\"vocabulary_size\": 4611686018427387904")),
              testing::HasSubstr("\"vocabulary_size\" is 4611686018427387904, expected 0 to 2147483648"));
  EXPECT_THAT(error_of(written_with("\"tokens\": 3", "\"tokens\": 18446744073709551615")),
              testing::HasSubstr("\"tokens\" is 18446744073709551615, expected 0 to "));
  EXPECT_THAT(error_of(written_with("\"block_bytes\": 4096", "\"block_bytes\": 9223372036854771712")),
              testing::HasSubstr("\"block_bytes\" is 9223372036854771712, expected 0 to "));
}

TEST_F(Sidecar, NamesTheFileWhateverBytesItHas) {
  EXPECT_THAT(error_of("\xFF\xFEjunk"), testing::AllOf(testing::HasSubstr("train.bin.json: not valid JSON"),
                                                       testing::HasSubstr("invalid literal")));
}

TEST(BlockHasher, HashesEachBlockHoweverTheBytesArrive) {
  std::vector<std::byte> bytes(10000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  BlockHasher whole(4096), pieces(4096);
  whole.append(bytes);
  for (size_t at = 0; at < bytes.size(); at += 999)
    pieces.append(std::span(bytes).subspan(at, std::min<size_t>(999, bytes.size() - at)));
  const auto hashes = whole.finish();
  EXPECT_EQ(hashes, pieces.finish());
  ASSERT_EQ(hashes.size(), 3u);
  EXPECT_EQ(hashes[1], xxh3(std::span(bytes).subspan(4096, 4096)));
  EXPECT_EQ(hashes[2], xxh3(std::span(bytes).subspan(8192)));
}

}  // namespace
}  // namespace trireme
