#include "base/output_path.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

TEST(OutputPath, SaysWhyNothingCanBeWritten) {
  const TemporaryFolder folder;
  EXPECT_EQ(why_no_output("result.json"), "");
  EXPECT_EQ(why_no_output(folder / "result.json"), "");
  write_text(folder / "result.json", "old");
  EXPECT_EQ(why_no_output(folder / "result.json"), "") << "it is replaced";
  EXPECT_EQ(why_no_output(""), "the value is empty; is a shell variable not set?");
  EXPECT_EQ(why_no_output("/"), "/ is a folder, expected the name of a file");
  EXPECT_EQ(why_no_output("/no/such/x"), "cannot write /no/such/x: folder /no/such is missing; create it");
  EXPECT_EQ(why_no_output("/dev/null"), "");
  EXPECT_EQ(why_no_output("/dev/stdout"), "");
  EXPECT_EQ(why_no_output("/dev/fd/999"), "cannot write /dev/fd/999: it is not open for writing");
  std::filesystem::create_symlink("no/such", folder / "dangling");
  EXPECT_EQ(why_no_output(folder / "dangling"),
            "cannot write " + (folder / "dangling") + ": folder " + (folder / "no") + " is missing; create it");
  const std::string inside = folder / "result.json/x";
  EXPECT_EQ(why_no_output(inside), "cannot write " + inside + ": " + (folder / "result.json") + " is not a folder");
}

}  // namespace
}  // namespace trireme
