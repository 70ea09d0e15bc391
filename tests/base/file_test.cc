#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;

size_t count_files(const std::string& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(MappedFile, ShowsTheBytes) {
  TemporaryFolder folder;
  write_text(folder / "f", std::string("a\0b\n", 4));
  MappedFile file(folder / "f");
  EXPECT_EQ(file.text(), std::string_view("a\0b\n", 4));
  const MappedFile moved = std::move(file);
  EXPECT_EQ(moved.bytes().size(), 4u);
  EXPECT_EQ(moved.path(), folder / "f");
}

TEST(MappedFile, AnEmptyFileIsAnEmptySpan) {
  TemporaryFolder folder;
  write_text(folder / "f", "");
  EXPECT_TRUE(MappedFile(folder / "f").bytes().empty());
}

TEST(MappedFile, NamesPathAndReason) {
  TemporaryFolder folder;
  EXPECT_ERROR(MappedFile(folder / "absent"), ErrorKind::io, "absent: No such file or directory");
  EXPECT_ERROR(MappedFile(folder.path()), ErrorKind::io, "is a folder, expected a file");
}

TEST(ReadText, IfThereIsEmptyWhereReadingFailsAsOfAProcessThatHasEnded) {
  EXPECT_EQ(read_text_if_there("/proc/self/nothing"), "");
  EXPECT_EQ(read_text_if_there("/proc/self/mem"), "") << "opens, and its first read fails";
  EXPECT_FALSE(read_text_if_there("/proc/self/stat").empty());
}

TEST(AtomicFile, AppearsWholeAtCommit) {
  TemporaryFolder folder;
  write_text(folder / "f", "old");
  AtomicFile file(folder / "f");
  file.write("new ");
  file.write_at(4, std::as_bytes(std::span("text", 4)));
  EXPECT_EQ(read_text(folder / "f"), "old");
  file.commit();
  EXPECT_EQ(read_text(folder / "f"), "new text");
  EXPECT_EQ(count_files(folder.path()), 1u);
}

TEST(AtomicFile, LeavesNothingWhenDropped) {
  TemporaryFolder folder;
  write_text(folder / "f", "old");
  {
    AtomicFile file(folder / "f");
    file.write("half");
  }
  EXPECT_EQ(read_text(folder / "f"), "old");
  EXPECT_EQ(count_files(folder.path()), 1u);
}

TEST(AtomicFile, WritesInAnyOrderLeavingZerosBetween) {
  TemporaryFolder folder;
  AtomicFile file(folder / "f");
  file.write_at(3, std::as_bytes(std::span("d", 1)));
  file.write_at(0, std::as_bytes(std::span("a", 1)));
  file.commit();
  EXPECT_EQ(read_text(folder / "f"), std::string("a\0\0d", 4));
}

TEST(AtomicFile, NamesTheMissingFolder) {
  TemporaryFolder folder;
  EXPECT_ERROR(AtomicFile(folder / "absent/f"), ErrorKind::io, "No such file or directory");
}

TEST(AtomicFile, AFailingPublicationNamesTheReasonAndCleansUp) {
  TemporaryFolder folder;
  fs::create_directories(folder / "f/inside");  // a folder where the file should go
  AtomicFile file(folder / "f");
  file.write("text");
  EXPECT_ERROR(file.commit(), ErrorKind::io, "cannot publish");
  EXPECT_EQ(count_files(folder.path()), 1u);
}

TEST(ReadText, RefusesMoreThanAskedFor) {
  TemporaryFolder folder;
  write_text(folder / "f", "0123456789");
  EXPECT_EQ(read_text(folder / "f", 10), "0123456789");
  EXPECT_ERROR(read_text(folder / "f", 9), ErrorKind::data, "has 10 bytes, but at most 9 are supported");
}

TEST(ReadText, ReadsFilesWithoutASize) {
  EXPECT_FALSE(read_text("/proc/self/status").empty());
  EXPECT_ERROR(read_text("/proc/self/status", 20), ErrorKind::data, "has more than 20 bytes");
}

TEST(ReadText, NamesPathAndReason) {
  TemporaryFolder folder;
  EXPECT_ERROR(read_text(folder / "absent"), ErrorKind::io, "absent: No such file or directory");
  EXPECT_ERROR(read_text(folder.path()), ErrorKind::io, "is a folder");
}

TEST(SyncFolder, NamesWhatIsNotAFolder) {
  TemporaryFolder folder;
  EXPECT_NO_THROW(sync_folder(folder.path()));
  write_text(folder / "f", "x");
  EXPECT_ERROR(sync_folder(folder / "f"), ErrorKind::io, "Not a directory");
}

}  // namespace
}  // namespace trireme
