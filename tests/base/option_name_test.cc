#include "base/option_name.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(OptionNames, AreTheCommandsOwnOrAsGiven) {
  EXPECT_EQ(option_name("run.dir"), "run.dir");
  static constexpr OptionName kNames[] = {{"run.dir", "--output-dir"}, {"precision.dtype bf16", "--bf16"}};
  set_option_names(kNames);
  EXPECT_EQ(option_name("run.dir"), "--output-dir");
  EXPECT_EQ(option_name("--run.dir"), "--output-dir");
  EXPECT_EQ(option_name("precision.dtype bf16"), "--bf16");
  EXPECT_EQ(option_name("precision.dtype"), "precision.dtype");
  EXPECT_EQ(option_name("--run.take-over"), "--run.take-over");
  set_option_names({});
  EXPECT_EQ(option_name("--run.dir"), "--run.dir");
}

}  // namespace
}  // namespace trireme
