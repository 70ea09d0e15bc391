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
  EXPECT_ERROR(TokenDataset(path_, 0, false), ErrorKind::data, "declares 5000 tokens, which are 10000 bytes");
}

TEST_F(TokenDatasetTest, RefusesElementsThatAreNotUint16) {
  write({1, 0, 2, 0});
  TokenSidecar sidecar;
  sidecar.dtype = "int32";
  sidecar.tokens = 2;
  sidecar.vocabulary = 100;
  sidecar.block_hashes = {0};
  write_sidecar(path_, sidecar);
  EXPECT_ERROR(TokenDataset(path_, 0, false), ErrorKind::data, "are int32; training needs uint16");
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
