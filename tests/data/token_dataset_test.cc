#include "data/token_dataset.h"

#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

constexpr uint64_t kBlock = 4096;  // bytes: small blocks make small files

class TokenDatasetTest : public testing::Test {
 protected:
  void write(const std::vector<uint16_t>& tokens) {
    const auto bytes = std::as_bytes(std::span(tokens));
    write_text(path_, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  void write_with_sidecar(const std::vector<uint16_t>& tokens, uint64_t vocabulary) {
    write(tokens);
    BlockHasher hasher(kBlock);
    hasher.append(std::as_bytes(std::span(tokens)));
    TokenSidecar sidecar;
    sidecar.tokens = tokens.size();
    sidecar.documents = 1;
    sidecar.vocabulary = vocabulary;
    sidecar.block_bytes = kBlock;
    sidecar.block_hashes = hasher.finish();
    write_sidecar(path_, sidecar);
  }
  void write_wide(const std::string& bytes, uint64_t vocabulary) {
    write_text(path_, bytes);
    BlockHasher hasher;
    hasher.append(std::as_bytes(std::span(bytes)));
    TokenSidecar sidecar;
    sidecar.dtype = "int32";
    sidecar.tokens = bytes.size() / 4;
    sidecar.documents = 1;
    sidecar.vocabulary = vocabulary;
    sidecar.block_hashes = hasher.finish();
    write_sidecar(path_, sidecar);
  }
  void overwrite(uint64_t token, uint16_t id) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(token * 2));
    file.write(reinterpret_cast<const char*>(&id), 2);
  }
  static std::vector<uint16_t> sequence(size_t count, uint16_t below) {
    std::vector<uint16_t> tokens(count);
    for (size_t i = 0; i < count; ++i) tokens[i] = static_cast<uint16_t>(i % below);
    return tokens;
  }

  TemporaryFolder folder_;
  std::string path_ = folder_ / "train.bin";
};

TEST_F(TokenDatasetTest, OpensABareFile) {
  write({5, 6, 65535});
  const TokenDataset data(path_, 0, false);
  EXPECT_EQ(data.size(), 3u);
  EXPECT_EQ(data.tokens()[2], 65535);
  EXPECT_FALSE(data.sidecar());
  EXPECT_EQ(data.path(), path_);
}

TEST_F(TokenDatasetTest, OpensAPreparedFile) {
  write_with_sidecar(sequence(5000, 100), 100);
  const TokenDataset data(path_, 100, true);
  EXPECT_EQ(data.size(), 5000u);
  ASSERT_TRUE(data.sidecar());
  EXPECT_EQ(data.sidecar()->vocabulary, 100u);
}

TEST_F(TokenDatasetTest, RefusesAMissingFile) { EXPECT_ERROR(TokenDataset(path_, 0, false), ErrorKind::io, path_); }

TEST_F(TokenDatasetTest, RefusesAnEmptyFile) {
  write({});
  EXPECT_ERROR(TokenDataset(path_, 0, false), ErrorKind::data, "is empty; prepare the data again");
}

TEST_F(TokenDatasetTest, RefusesAnOddLength) {
  write_text(path_, "abc");
  EXPECT_ERROR(TokenDataset(path_, 0, false), ErrorKind::data, "has 3 bytes, an odd number");
}

TEST_F(TokenDatasetTest, RefusesAFileThatItsSidecarDoesNotFit) {
  write_with_sidecar(sequence(5000, 100), 100);
  write(sequence(4999, 100));
  EXPECT_ERROR(TokenDataset(path_, 0, false), ErrorKind::data, "has 9998 bytes, but");
  EXPECT_ERROR(TokenDataset(path_, 0, false), ErrorKind::data,
               "declares 5000 tokens of 16 bits, which are 10000 bytes");
}

TEST_F(TokenDatasetTest, ReadsIdsOf32BitsIfTheSidecarSaysSo) {
  // little-endian: 1, 65535, 65536, 151935
  const std::string bytes("\x01\0\0\0\xff\xff\0\0\0\0\x01\0\x7f\x51\x02\0", 16);
  write_wide(bytes, 151936);
  const TokenDataset data(path_, 151936, true);
  ASSERT_EQ(data.size(), 4u);
  EXPECT_EQ(data.format(), "token file, 32-bit ids");
  EXPECT_EQ(data.tokens().width(), 4u);
  const std::vector<int32_t> expected{1, 65535, 65536, 151935};
  std::vector<int32_t> read(4);
  data.tokens().copy(0, read);
  EXPECT_EQ(read, expected);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(static_cast<int32_t>(data.tokens()[i]), expected[i]);
  std::vector<int32_t> last(2);
  data.tokens().copy(2, last);
  EXPECT_EQ(last, (std::vector<int32_t>{65536, 151935}));
  EXPECT_ERROR(TokenDataset(path_, 151935, true), ErrorKind::data,
               "was prepared with a vocabulary of 151936 ids, but the model has 151935");
}

TEST_F(TokenDatasetTest, RefusesWideIdsOutsideOfTheVocabulary) {
  write_wide(std::string("\x01\0\0\0\0\0\x01\0", 8), 65536);
  EXPECT_ERROR(TokenDataset(path_, 0, false), ErrorKind::data, path_ + ": token 1 is id 65536, but the vocabulary has");
  write_wide(std::string("\x01\0\0\0\xff\xff\xff\xff", 8), 151936);  // -1
  EXPECT_ERROR(TokenDataset(path_, 151936, false), ErrorKind::data, "token 1 is id 4294967295, but");
}

TEST_F(TokenDatasetTest, RefusesAWideFileThatItsSidecarDoesNotFit) {
  write_wide(std::string(16, '\1'), 151936);
  write_text(path_, std::string(14, '\1'));
  EXPECT_ERROR(TokenDataset(path_, 0, false), ErrorKind::data, "declares 4 tokens of 32 bits, which are 16 bytes");
}

TEST_F(TokenDatasetTest, Refuses16BitsOfAVocabularyThatNeedsMore) {
  write({5, 6, 65535});
  EXPECT_NO_THROW(TokenDataset(path_, 65536, false));
  EXPECT_ERROR(TokenDataset(path_, 65537, false), ErrorKind::data,
               path_ + " holds 16-bit ids, up to 65535, but the model's vocabulary has 65537 ids");
  EXPECT_NO_THROW(TokenDataset(path_, 65537, false, {}, true)) << "the user says that they are right";
  write_with_sidecar({5, 6, 7}, 65537);
  EXPECT_ERROR(TokenDataset(path_, 0, false), ErrorKind::data,
               "train.bin.json: \"dtype\" is \"uint16\", but \"vocabulary_size\" is 65537");
  write_with_sidecar({5, 6, 7}, 100);
  EXPECT_NO_THROW(TokenDataset(path_, 151936, false)) << "its own vocabulary fits";
}

TEST_F(TokenDatasetTest, RefusesDataOfALargerVocabularyThanTheModels) {
  write_with_sidecar(sequence(5000, 100), 50257);
  EXPECT_ERROR(TokenDataset(path_, 512, false), ErrorKind::data,
               "was prepared with a vocabulary of 50257 ids, but the model has 512");
}

TEST_F(TokenDatasetTest, RefusesAnIdOutsideOfTheVocabulary) {
  write({1, 2, 100, 3});
  EXPECT_ERROR(TokenDataset(path_, 100, false), ErrorKind::data, "token 2 is id 100, but the vocabulary has 100 ids");
  EXPECT_NO_THROW(TokenDataset(path_, 101, false));
}

TEST_F(TokenDatasetTest, ChecksIdsAgainstTheSidecarsVocabulary) {
  write_with_sidecar({1, 2, 100, 3}, 100);
  EXPECT_ERROR(TokenDataset(path_, 0, false), ErrorKind::data, "token 2 is id 100");
  EXPECT_ERROR(TokenDataset(path_, 50257, false), ErrorKind::data, "token 2 is id 100");
}

TEST_F(TokenDatasetTest, SaysWhenBytesSeemToBeSwapped) {
  write({0x0100, 0x0200, 0x0300});
  EXPECT_ERROR(TokenDataset(path_, 100, false), ErrorKind::data, "big-endian");
}

TEST_F(TokenDatasetTest, FindsADamagedBlock) {
  write_with_sidecar(sequence(5000, 100), 100);
  overwrite(2100, 55);  // second of three blocks of 2048 tokens
  EXPECT_ERROR(TokenDataset(path_, 100, false), ErrorKind::data, "bytes 4096 to 8192 have checksum");
}

TEST_F(TokenDatasetTest, SamplesBlocksByDefaultAndReadsAllWithVerify) {
  constexpr uint64_t kBlockTokens = kBlock / 2;
  write_with_sidecar(sequence(40 * kBlockTokens, 100), 100);
  overwrite(kBlockTokens + 1, 55);  // block 1: the sample of 40 blocks is 0, 2, 5, ... 39
  EXPECT_NO_THROW(TokenDataset(path_, 100, false));
  EXPECT_ERROR(TokenDataset(path_, 100, true), ErrorKind::data, "bytes 4096 to 8192 have checksum");
  overwrite(39 * kBlockTokens, 99);
  EXPECT_ERROR(TokenDataset(path_, 100, false), ErrorKind::data, "bytes 159744 to 163840");
}

}  // namespace
}  // namespace trireme
