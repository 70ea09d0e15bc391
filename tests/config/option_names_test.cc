#include "config/option_names.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(OptionNames, AreTheCommandsOwnOrAsGiven) {
  const OptionNames names({{"run.dir", "--output-dir"}, {"precision.dtype bf16", "--bf16"}});
  EXPECT_EQ(names("run.dir"), "--output-dir");
  EXPECT_EQ(names("--run.dir"), "--output-dir");
  EXPECT_EQ(names("precision.dtype bf16"), "--bf16");
  EXPECT_EQ(names("precision.dtype"), "precision.dtype");
  EXPECT_EQ(names("--run.take-over"), "--run.take-over");
  EXPECT_EQ(OptionNames()("--run.dir"), "--run.dir");
}

}  // namespace
}  // namespace trireme
