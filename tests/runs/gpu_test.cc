// run.device where no GPU can be used.

#include <gmock/gmock.h>

#include "tests/runs/training_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

using GpuRun = TrainingFixture;

TEST_F(GpuRun, AGpuThatCannotBeUsedIsAnErrorThatSaysWhy) {
  const Outcome outcome = run(trireme_command(train("run", {"--run.device", "cuda"})));
  if (outcome.code == 0) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  const bool has_library =
      std::filesystem::exists(std::filesystem::path(trireme_path()).parent_path() / "libtrireme_cuda.so");
  EXPECT_THAT(outcome.output,
              HasSubstr(has_library ? "error: GPU 0 cannot be used: 0 GPUs were found; the CUDA runtime "
                                    : "error: run.device is cuda, but this build has no libtrireme_cuda.so beside the "
                                      "program; scripts/build release-cuda makes one"));
  EXPECT_THAT(outcome.output, ::testing::Not(HasSubstr(" | loss ")));
}

TEST_F(GpuRun, OnSeveralRanksToo) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const Outcome outcome = run(mpirun_command(2, train("run", {"--run.device", "cuda"})));
  if (outcome.code == 0) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_THAT(outcome.output, ::testing::AnyOf(HasSubstr("error: GPU 0 cannot be used: 0 GPUs were found"),
                                               HasSubstr("error: run.device is cuda, but this build has no")));
}

// A program with a library that cannot be opened, as after a copy that was cut short.
TEST_F(GpuRun, AutoSaysWhyItTakesTheCpu) {
  const std::string program = path("trireme");
  std::filesystem::copy_file(trireme_path(), program);
  write_text(path("libtrireme_cuda.so"), "");
  std::vector<std::string> words = train("run", {"--run.steps", "2"});
  words.insert(words.begin(), program);
  const Outcome alone = run(words);
  EXPECT_EQ(alone.code, 0) << alone.output;
  EXPECT_THAT(alone.output, HasSubstr("computing on the CPU: the GPU library cannot be opened: " +
                                      path("libtrireme_cuda.so") + ": file too short"));
  if (mpirun_path().empty()) return;
  words = train("two", {"--run.steps", "2"});
  words.insert(words.begin(), {mpirun_path(), "-n", "2", program});
  const Outcome two = run(words);
  EXPECT_EQ(two.code, 0) << two.output;
  EXPECT_THAT(two.output, HasSubstr("computing on CPUs: rank 0: the GPU library cannot be opened: "));
}

}  // namespace
}  // namespace trireme
