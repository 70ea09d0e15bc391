#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

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

TEST(ReadText, IfThereIsEmptyOnlyWhereNothingIs) {
  TemporaryFolder folder;
  write_text(folder / "f", "text");
  EXPECT_EQ(read_text_if_there("/proc/self/nothing"), "");
  EXPECT_EQ(read_text_if_there(folder / "absent"), "");
  EXPECT_EQ(read_text_if_there(folder / "f/below"), "") << "a file where a folder was looked for";
  EXPECT_EQ(read_text_if_there(folder / "f"), "text");
  EXPECT_FALSE(read_text_if_there("/proc/self/stat").empty());
  EXPECT_ERROR(read_text_if_there("/proc/self/mem"), ErrorKind::io, "Input/output error");
  EXPECT_ERROR(read_text_if_there(folder.path()), ErrorKind::io, "is a folder");
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
  AtomicFile file(folder / "f");
  file.write("text");
  fs::create_directories(folder / "f/inside");  // a folder where the file should go
  EXPECT_ERROR(file.commit(), ErrorKind::io, "cannot publish");
  EXPECT_EQ(count_files(folder.path()), 1u);
}

TEST(AtomicFile, ATargetOfLinksIsReplacedAndTheLinksStay) {
  TemporaryFolder folder;
  fs::create_directories(folder / "there");
  write_text(folder / "there/f", "old");
  fs::create_symlink("there/f", folder / "near");         // relative
  fs::create_symlink(folder / "near", folder / "far");    // a link to a link
  fs::create_symlink("there/new", folder / "dangling");   // what it names is made
  fs::create_directory_symlink("there", folder / "way");  // a folder on the way
  for (const char* name : {"near", "far", "dangling", "way/f", "way/g"}) {
    write_text(folder / name, name);
    EXPECT_EQ(read_text(folder / name), name);
  }
  EXPECT_EQ(read_text(folder / "there/f"), "way/f");
  EXPECT_EQ(read_text(folder / "there/new"), "dangling");
  for (const char* name : {"near", "far", "dangling", "way"}) EXPECT_TRUE(fs::is_symlink(folder / name)) << name;
  fs::create_symlink("circle", folder / "circle");
  EXPECT_ERROR(AtomicFile(folder / "circle"), ErrorKind::io, "is a circle of symbolic links");
  EXPECT_EQ(count_files(folder / "there"), 3u) << "no temporary file is left";
}

TEST(AtomicFile, WhatIsNoFileIsWrittenAsItIs) {
  TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = read_text(folder / "pipe"); });
  write_text(folder / "pipe", "through the pipe");
  reader.join();
  EXPECT_EQ(got, "through the pipe");
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
  EXPECT_ERROR(write_text(folder / "pipe", "x", 0644, Flush::later), ErrorKind::io, "is a pipe that no program reads");
  fs::create_symlink("/dev/null", folder / "null");
  for (const std::string& device : {std::string("/dev/null"), folder / "null"}) {
    AtomicFile file(device);
    file.write("text");
    file.write_at(2, std::as_bytes(std::span("text", 4)));
    file.commit();
    EXPECT_TRUE(fs::is_character_file(device));
  }
  EXPECT_TRUE(fs::is_symlink(folder / "null"));
  EXPECT_ERROR(write_text("/dev/full", "x"), ErrorKind::io, "cannot write /dev/full (0 of 1 bytes written): No space");
  EXPECT_ERROR(AtomicFile(folder.path()), ErrorKind::io, "is a folder, expected a file");
}

TEST(AtomicFile, AnOpenDescriptorIsWrittenWhereItStands) {
  TemporaryFolder folder;
  const int fd = open((folder / "f").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(write(fd, "before ", 7), 7);
  const std::string name = "/dev/fd/" + std::to_string(fd);
  for (const std::string& path : {name, "/proc/self/fd/" + std::to_string(fd)}) write_text(path, "text ");
  ASSERT_EQ(write(fd, "after", 5), 5);
  EXPECT_EQ(read_text(folder / "f"), "before text text after");
  close(fd);
  EXPECT_ERROR(write_text(name, "x"), ErrorKind::io, "cannot write to ");
}

TEST(AtomicFile, TemporaryFilesAreNewWhateverStandsUnderTheirNames) {
  TemporaryFolder folder;
  write_text(folder / "victim", "kept");
  // The names that this process gives next, as another user could predict them.
  const std::string next = temporary_suffix();
  const size_t digits = next.rfind('-') + 1;
  const uint64_t count = std::stoull(next.substr(digits));
  for (uint64_t i = 1; i <= 3; ++i)
    fs::create_symlink(folder / "victim", folder / ("f" + next.substr(0, digits) + std::to_string(count + i)));
  write_text(folder / "f", "text");
  EXPECT_EQ(read_text(folder / "f"), "text");
  EXPECT_FALSE(fs::is_symlink(folder / "f"));
  EXPECT_EQ(read_text(folder / "victim"), "kept");
}

TEST(AtomicFile, ALongNameHasRoomForItsTemporaryFile) {
  TemporaryFolder folder;
  const std::string longest(255, 'n');
  write_text(folder / longest, "text");
  EXPECT_EQ(read_text(folder / longest), "text");
  EXPECT_EQ(count_files(folder.path()), 1u);
}

TEST(AtomicFile, ThreadsThatWriteOneFileEachWriteAWholeOne) {
  TemporaryFolder folder;
  std::vector<std::thread> threads;
  for (char letter = 'a'; letter < 'i'; ++letter)
    threads.emplace_back([&, letter] {
      for (int i = 0; i < 20; ++i) write_text(folder / "f", std::string(10'000, letter), 0644, Flush::later);
    });
  for (std::thread& thread : threads) thread.join();
  const std::string text = read_text(folder / "f");
  EXPECT_EQ(text, std::string(10'000, text[0]));
  EXPECT_EQ(count_files(folder.path()), 1u);
}

TEST(ReasonOfWrite, NamesTheLimitOfAFilesSize) {
  struct rlimit before {};
  getrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(reason_of_write(ENOSPC), "No space left on device");
  EXPECT_EQ(reason_of_write(EFBIG), "File too large, for this file system");
  struct rlimit small = before;
  small.rlim_cur = 1000;
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string reason = reason_of_write(EFBIG);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(reason,
            "File too large: this process may write 1000 bytes per file (`ulimit -f`, or a limit of the batch "
            "system); raise it");
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
