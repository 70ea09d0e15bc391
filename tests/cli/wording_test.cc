#include "cli/wording.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Wording, OptionsHaveTheCommandsOwnNames) {
  const struct {
    const char *native, *own;
  } cases[] = {
      {"lower optim.learning-rate, or resume from an earlier snapshot with --checkpoint.resume",
       "lower --learning-rate, or resume from an earlier snapshot with --resume-from-checkpoint"},
      {"use another --run.dir, or set --run.take-over", "use another --output-dir, or set --run.take-over"},
      {"start a new run with --checkpoint.resume none --run.overwrite", "start a new run with --overwrite-output-dir"},
      {"leave checkpoint.resume at auto, add --run.overwrite",
       "remove --resume-from-checkpoint, add --overwrite-output-dir"},
      {"set run.dir elsewhere. Or run.seed.", "set --output-dir elsewhere. Or --seed."},
      {"/x/run.dir and run.directory, my-run.dir/y stay", "/x/run.dir and run.directory, my-run.dir/y stay"},
      {"\"--optim.clip\" and \"run.seed\", quoted as they were typed, stay",
       "\"--optim.clip\" and \"run.seed\", quoted as they were typed, stay"},
      {"", ""},
  };
  for (const auto& [native, own] : cases) {
    EXPECT_EQ(in_words_of("glue", native), own);
    EXPECT_EQ(in_words_of("train", native), native);
  }
}

}  // namespace
}  // namespace trireme
