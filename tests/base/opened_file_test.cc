#include "base/opened_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

TEST(OpenedFile, APipeInPlaceOfAFileIsNamedImmediately) {
  TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "p").c_str(), 0600), 0);
  EXPECT_ERROR(OpenedFile(folder / "p"), ErrorKind::io, "/p is a pipe, expected a file");
  EXPECT_ERROR(MappedFile(folder / "p"), ErrorKind::io, "/p is a pipe, expected a file");
}

TEST(OpenedFile, APipeWithoutAWriterTimesOut) {
  TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "p").c_str(), 0600), 0);
  EXPECT_ERROR(read_text(folder / "p"), ErrorKind::io, "/p is a pipe without a writer");
}

TEST(OpenedFile, APipeThatIsWrittenIsReadToItsEnd) {
  TemporaryFolder folder;
  const std::string path = folder / "p";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] {
    usleep(100'000);
    const int fd = open(path.c_str(), O_WRONLY);
    for (const char* part : {"on", "e\n", "two"}) {
      EXPECT_GT(write(fd, part, std::strlen(part)), 0);
      usleep(20'000);
    }
    close(fd);
  });
  EXPECT_EQ(read_text(path), "one\ntwo");
  writer.join();
}

TEST(OpenedFile, DevicesFoldersAndSocketsAreNotFiles) {
  TemporaryFolder folder;
  EXPECT_ERROR(read_text("/dev/zero"), ErrorKind::io, "/dev/zero is a device, expected a file");
  EXPECT_ERROR(MappedFile("/dev/zero"), ErrorKind::io, "/dev/zero is a device, expected a file");
  EXPECT_ERROR(read_text(folder.path()), ErrorKind::io, "is a folder, expected a file");
  EXPECT_EQ(read_text("/dev/null"), "") << "the usual name of nothing";
}

TEST(OpenedFile, ForWritingTheSame) {
  TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "p").c_str(), 0600), 0);
  EXPECT_ERROR(open_for_writing(folder / "p", O_RDWR | O_CREAT), ErrorKind::io, "is a pipe, expected a file");
  EXPECT_ERROR(open_for_writing(folder / "p", O_WRONLY | O_APPEND), ErrorKind::io, "is a pipe");
  const int fd = open_for_writing(folder / "new", O_RDWR | O_CREAT);
  EXPECT_GE(fd, 0);
  close(fd);
  EXPECT_LT(open_for_writing(folder / "absent", O_RDWR), 0);
}

}  // namespace
}  // namespace trireme
