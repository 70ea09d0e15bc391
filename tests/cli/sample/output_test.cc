#include "cli/sample/output.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <thread>

#include "base/file.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;

TEST(SampleFile, ReplacesTheTargetOfALinkAtTheEnd) {
  const TemporaryFolder folder;
  fs::create_symlink("target", folder / "link");
  write_text(folder / "target", "old");
  {
    SampleFile file(folder / "link");
    file.write("one\n");
    EXPECT_EQ(read_text(folder / "target.partial"), "one\n");
    EXPECT_EQ(read_text(folder / "target"), "old");
    file.commit();
  }
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_text(folder / "target"), "one\n");
  EXPECT_FALSE(fs::exists(folder / "target.partial"));
}

TEST(SampleFile, DoesNotWriteThroughALinkUnderItsTemporaryName) {
  const TemporaryFolder folder;
  write_text(folder / "victim", "kept");
  fs::create_symlink("victim", folder / "out.partial");
  SampleFile file(folder / "out");
  file.write("one\n");
  file.commit();
  EXPECT_EQ(read_text(folder / "victim"), "kept");
  EXPECT_EQ(read_text(folder / "out"), "one\n");
}

TEST(SampleFile, WritesLinesIntoAPipeOrADevice) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = read_text(folder / "pipe"); });
  {
    SampleFile file(folder / "pipe");
    file.write("one\n");
    file.write("two\n");
    file.commit();
  }
  reader.join();
  EXPECT_EQ(got, "one\ntwo\n");
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
  {
    SampleFile file("/dev/null");
    file.write("one\n");  // without commit(), as after an error
  }
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_FALSE(fs::exists("/dev/null.partial"));
}

}  // namespace
}  // namespace trireme
