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

TEST_F(GpuRun, SeveralRanksCannotShareOne) {
  if (mpirun_path().empty()) GTEST_SKIP() << "this build has no MPI";
  const Outcome outcome = run(mpirun_command(2, train("run", {"--run.device", "cuda"})));
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr("run.device is cuda, but the job has 2 ranks: so far only a job of one rank can "
                        "train on a GPU"));
}

}  // namespace
}  // namespace trireme
