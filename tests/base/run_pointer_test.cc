#include "base/run_pointer.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

TEST(RunPointer, IsTheStepFolderThatTheFileNames) {
  const TemporaryFolder run;
  std::filesystem::create_directory(run / "step-00000042");
  write_text(run / "best", "step-00000042\n");
  write_text(run / "latest", "step-00000043\n");
  write_text(run / "other", "step-00000042\n");
  EXPECT_EQ(follow_run_pointer(run / "best"), run / "step-00000042");
  EXPECT_EQ(follow_run_pointer(run / "other"), run / "other");
  EXPECT_EQ(follow_run_pointer(run.path()), run.path());
  EXPECT_EQ(follow_run_pointer(run / "absent/best"), run / "absent/best");
  EXPECT_ERROR(follow_run_pointer(run / "latest"), ErrorKind::io,
               "latest names step-00000043, which is not a folder beside it");
  write_text(run / "latest", "global_step10\n");  // GPT-NeoX's
  EXPECT_EQ(follow_run_pointer(run / "latest"), run / "latest");
  EXPECT_EQ(tokenizer_folder_of_run(run.path()), run.path());
  write_text(run / "latest", "step-00000042\n");
  EXPECT_EQ(tokenizer_folder_of_run(run.path()), run / "step-00000042");
}

}  // namespace
}  // namespace trireme
