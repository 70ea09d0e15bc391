// The program with a GPU for each of several ranks, which is the executor (executor_library.cc): processes that a twin
// of NCCL connects.

#include <csignal>

#include "tests/gpu/gpu_program.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Variables that the executor reads, until the test ends.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

class GpuRanks : public GpuProgram {
 protected:
  void SetUp() override {
    if (mpirun_path().empty()) GTEST_SKIP() << "this build has no MPI";
  }
  std::vector<std::string> cuda(const std::string& name, std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--run.device", "cuda"});
    return few(name, more);
  }
  const Variable gpus_{"TRIREME_EXECUTOR_GPUS", "4"};
};

TEST_F(GpuRanks, TrainWithTheLossesOfOne) {
  const auto words = [&](const std::string& name, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--run.steps", "4"});
    return cuda(name, more);
  };
  done(gpu_(words("one")));
  const Outcome two = done(gpu_.on_ranks(2, words("two")));
  EXPECT_THAT(two.output, HasSubstr("gpu        the executor, connected by sockets"));
  expect_losses("two", "one", 1e-6);
  done(gpu_.on_ranks(2, words("owners", {"--optim.shard", "optimizer"})));
  EXPECT_EQ(losses("owners"), losses("two"));
  EXPECT_EQ(weights("owners"), weights("two"));
  done(gpu_.on_ranks(2, words("tensor", {"--mesh.tensor", "2"})));
  expect_losses("tensor", "one", 2e-5);
  done(gpu_.on_ranks(2, words("pipeline", {"--mesh.pipeline", "2"})));
  expect_losses("pipeline", "one", 2e-5);
}

TEST_F(GpuRanks, RunsMoveBetweenLayoutsAndToTheCpu) {
  done(gpu_(cuda("one")));
  done(gpu_.on_ranks(2, cuda("moved", {"--run.steps", "3", "--optim.shard", "optimizer"})));
  done(gpu_.on_ranks(4, cuda("moved", {"--run.steps", "5", "--mesh.tensor", "2", "--comm.wire", "bf16"})));
  done(gpu_.on_ranks(2, few("moved", {"--run.device", "cpu"})));
  expect_losses("moved", "one", 2e-3);
}

TEST_F(GpuRanks, TakeAGpuEach) {
  const Outcome few_gpus = gpu_.on_ranks(5, cuda("run"));
  EXPECT_EQ(few_gpus.code, 2) << few_gpus.output;
  EXPECT_THAT(few_gpus.output, HasSubstr("this host has more ranks than GPUs: CUDA shows 4; start one rank per GPU "
                                         "(CUDA_VISIBLE_DEVICES may hide some)"));
  const Variable one("TRIREME_EXECUTOR_GPUS", "1");
  const Outcome shared = gpu_.on_ranks(2, cuda("run"));
  EXPECT_EQ(shared.code, 2) << shared.output;
  EXPECT_THAT(shared.output, HasSubstr("ranks 0 and 1 both have the GPU 0 of "));
  const Outcome automatic = done(gpu_.on_ranks(2, few("cpus", {"--run.steps", "1"})));
  EXPECT_THAT(automatic.output, AllOf(HasSubstr("computing on CPUs: ranks 0 and 1 both have the GPU 0 of "),
                                      Not(HasSubstr("the executor"))));
  const Variable own("TRIREME_EXECUTOR_HIDES", "1");
  EXPECT_THAT(done(gpu_.on_ranks(2, few("own", {"--run.steps", "1"}))).output,
              HasSubstr("the executor, connected by sockets"))
      << "a launcher that shows each rank its own";
}

TEST_F(GpuRanks, WhatOnlyCpusHaveIsNamed) {
  const Outcome shard = gpu_.on_ranks(2, cuda("run", {"--optim.shard", "gradients"}));
  EXPECT_EQ(shard.code, 2) << shard.output;
  EXPECT_THAT(
      shard.output,
      HasSubstr("optim.shard is gradients, which GPUs do not have: their memory is not given back in parts; set "
                "--optim.shard optimizer (shards the optimizer state), or --run.device cpu"));
  const Outcome tune = gpu_.on_ranks(2, cuda("run", {"--run.tune"}));
  EXPECT_EQ(tune.code, 2) << tune.output;
  EXPECT_THAT(tune.output, HasSubstr("run.tune times the products of one GPU, and several ranks would choose "
                                     "differently; leave it out"));
  const Outcome automatic = done(gpu_.on_ranks(2, few("cpus", {"--optim.shard", "parameters", "--run.steps", "1"})));
  EXPECT_THAT(automatic.output, HasSubstr("computing on CPUs: rank 0: optim.shard is parameters, which GPUs do not "));
}

// In the third step: the first one has a longer limit.
constexpr const char* kCall = " 1 60";

TEST_F(GpuRanks, AFailureOfTheLibraryEndsTheJob) {
  const Variable fault("TRIREME_EXECUTOR_FAULT", std::string("fails") + kCall);
  const Outcome outcome = gpu_.on_ranks(2, cuda("run"));
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("error: the twin of NCCL: an error that the test asked for"));
}

TEST_F(GpuRanks, AFailureBetweenTensorRanksEndsTheJob) {
  const Variable fault("TRIREME_EXECUTOR_FAULT", std::string("fails") + kCall);
  const Outcome outcome = gpu_.on_ranks(2, cuda("run", {"--mesh.tensor", "2"}));
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("error: the twin of NCCL: an error that the test asked for"));
}

TEST_F(GpuRanks, ACallThatIsNeverDoneEndsTheJobWithWhatIsWaitedFor) {
  const Variable fault("TRIREME_EXECUTOR_FAULT", std::string("hangs") + kCall);
  const Outcome outcome = gpu_.on_ranks(2, cuda("run", {"--run.hang-timeout", "2"}));
  EXPECT_EQ(outcome.code, 76) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("waiting for the sum of gradients"));
}

TEST_F(GpuRanks, ALostRankEndsTheJobAsOnCpus) {
  const Variable fault("TRIREME_EXECUTOR_FAULT", std::string("dies") + kCall);
  const Outcome outcome = gpu_.on_ranks(2, cuda("run"));
  EXPECT_NE(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("rank 1 on "), HasSubstr("was lost"), HasSubstr("exiting with code 76")));
}

}  // namespace
}  // namespace trireme
