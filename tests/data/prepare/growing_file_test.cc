#include "data/prepare/growing_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using Purpose = GrowingFile::Purpose;
using testing::HasSubstr;

class GrowingFiles : public testing::TestWithParam<Purpose> {
 protected:
  /// Bytes that differ by position.
  static std::string bytes(size_t begin, size_t end) {
    std::string text(end - begin, '\0');
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>((begin + i) * 2654435761 >> 24);
    return text;
  }
  static std::span<const std::byte> span(const std::string& text) { return std::as_bytes(std::span(text)); }

  TemporaryFolder folder_;
  std::string path_ = folder_ / "file.ids";
};

INSTANTIATE_TEST_SUITE_P(Purposes, GrowingFiles, testing::Values(Purpose::keep, Purpose::reread));

TEST_P(GrowingFiles, HoldWhatWasAppendedAndContinueAfterTruncation) {
  constexpr size_t kBlock = GrowingFile::kBlockBytes, kCut = 2 * kBlock + 12345, kEnd = 6 * kBlock + 77;
  std::vector<std::string> blocks;
  const auto note = [&](std::span<const std::byte> block) {
    blocks.emplace_back(reinterpret_cast<const char*>(block.data()), block.size());
  };
  {
    GrowingFile file(path_, 0, GetParam(), note);
    const std::string all = bytes(0, kEnd);
    for (size_t at = 0; at < all.size(); at += 1'000'003) file.append(span(all.substr(at, 1'000'003)));
    file.flush();
    EXPECT_EQ(blocks.size(), 6u);
    EXPECT_EQ(file.begun_block().size(), 77u);
    EXPECT_EQ(read_text(path_), all);
  }
  {
    GrowingFile file(path_, kCut, GetParam(), note);
    EXPECT_EQ(std::filesystem::file_size(path_), kCut);
    file.append(span(bytes(kCut, kEnd - 100)));
    file.flush();
    file.append(span(bytes(kEnd - 100, kEnd)));
    file.sync();
    std::string some(5000, ' ');
    file.read(kCut - 2500, std::as_writable_bytes(std::span(some)));
    EXPECT_EQ(some, bytes(kCut - 2500, kCut + 2500));
  }
  EXPECT_EQ(read_text(path_), bytes(0, kEnd));
  ASSERT_EQ(blocks.size(), 10u);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const size_t number = i < 6 ? i : i - 4;  // the second time from the block with the cut on
    EXPECT_EQ(blocks[i], bytes(number * kBlock, (number + 1) * kBlock)) << i;
  }
}

TEST_P(GrowingFiles, SayThatTheDiskFailedThoughAnotherThreadWrites) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{GrowingFile::kBlockBytes * 3 / 2, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::string message;
  try {
    GrowingFile file(path_, 0, GetParam());
    for (int i = 0; i < 3; ++i) file.append(span(bytes(0, GrowingFile::kBlockBytes)));
    file.flush();
  } catch (const Error& e) {
    message = e.what();
    EXPECT_EQ(e.kind(), ErrorKind::io);
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, HasSubstr("cannot write " + path_ + ": File too large"));
}

}  // namespace
}  // namespace trireme
