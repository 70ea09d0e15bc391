#include "cli/sample/options.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

TEST(Prompts, OfAFileThatIsNoTextAreRefused) {
  const TemporaryFolder folder;
  const std::string path = folder / "prompt.txt";
  write_text(path, std::string("HOME=/root\0SECRET=x\0", 20));  // as /proc/self/environ
  EXPECT_ERROR(read_start("FILE:" + path), ErrorKind::data, "byte 10 is NUL, which no text has: expected a text file");
  EXPECT_ERROR(read_prompts(path), ErrorKind::data, "byte 10 is NUL");
  EXPECT_EQ(read_start("FILE:" + path, {.name = "", .judges = false}).size(), 20u);
  EXPECT_ERROR(read_start("FILE:/proc/self/environ"), ErrorKind::data, "is NUL, which no text has");
  write_text(path, "Once upon a time\n");
  EXPECT_EQ(read_start("FILE:" + path), "Once upon a time\n");
}

}  // namespace
}  // namespace trireme
