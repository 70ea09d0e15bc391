// The program with a GPU for each of several ranks, which is the executor (executor_library.cc): processes that a twin
// of NCCL connects.

#include <csignal>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "checkpoint/run_folder/run_status.h"
#include "tests/gpu/gpu_program.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class GpuRanks : public GpuProgram {
 protected:
  void SetUp() override {
    if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
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

TEST_F(GpuRanks, TrainWithSumsOfTheLibrary) {
  const auto sums = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"--run.steps", "2", "--comm.reduce", "nccl"});
    return cuda(name, more);
  };
  const Outcome whole = done(gpu_.on_ranks(3, sums("whole", {"--batch.global", "6"})));
  EXPECT_THAT(whole.output,
              HasSubstr("sums       of gradients by sockets itself, in f32: it chooses the order and where "
                        "it rounds, so the bits differ from those of --comm.reduce flat and hosts, and may "
                        "differ with its version and the number of GPUs"));
  done(gpu_.on_ranks(3, sums("owners", {"--batch.global", "6", "--optim.shard", "optimizer"})));
  EXPECT_EQ(weights("owners"), weights("whole"));
  const Outcome alone = done(gpu_(sums("alone", {})));
  EXPECT_THAT(alone.output, Not(HasSubstr("sums  "))) << "there is nothing to add";
}

TEST_F(GpuRanks, RunsMoveBetweenLayoutsAndToTheCpu) {
  done(gpu_(cuda("one")));
  done(gpu_.on_ranks(2, cuda("moved", {"--run.steps", "3", "--optim.shard", "optimizer"})));
  done(gpu_.on_ranks(4, cuda("moved", {"--run.steps", "5", "--mesh.tensor", "2", "--comm.wire", "bf16"})));
  done(gpu_.on_ranks(2, few("moved", {"--run.device", "cpu"})));
  expect_losses("moved", "one", 2e-3);
}

TEST_F(GpuRanks, MeasureTheLibrarysCollectivesAndTheirOwnSums) {
  const auto comm = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"bench", "comm"});
    return gpu_.on_ranks(3, more);
  };
  for (const char* type : {"float", "half", "bfloat16"}) {
    const Outcome all = done(comm(
        {"all", "-b", "24000", "-e", "48000", "-f", "2", "-g", "1", "-n", "2", "-d", type, "-J", path("comm.json")}));
    EXPECT_THAT(all.output, AllOf(HasSubstr("# Link: between GPUs of one host\n# Transport: sockets\n"),
                                  HasSubstr(" GPU 2 [the executor, connected by sockets]"),
                                  HasSubstr("# Out of bounds values : 0 OK")));
    std::map<std::string, int> rows;
    const Json document = read_json(path("comm.json"));
    for (const Json& row : document.at("results")) {
      ++rows[row.at("collective")];
      for (const char* mode : {"out_of_place", "in_place"}) {
        if (row.at(mode).is_null()) continue;
        EXPECT_EQ(row.at(mode).at("nwrong"), 0) << row;
        EXPECT_GT(row.at(mode).at("time").get<double>(), 0) << row;
      }
    }
    EXPECT_EQ(rows, (std::map<std::string, int>{{"all_reduce", 2},
                                                {"all_gather", 2},
                                                {"reduce_scatter", 2},
                                                {"broadcast", 2},
                                                {"alltoall", 2},
                                                {"sendrecv", 2},
                                                {"gradient", 2}}));
  }
  {
    const Variable spoiled("TRIREME_EXECUTOR_SPOILS", "message");
    const Outcome wrong = comm({"all_reduce", "-b", "24000", "-e", "24000", "-n", "1"});
    EXPECT_EQ(wrong.code, 1) << wrong.output;
    EXPECT_THAT(wrong.output, HasSubstr("had wrong results"));
  }
  EXPECT_THAT(done(comm({"all_reduce", "-b", "24000", "-e", "24000", "-n", "1", "--device", "cpu"})).output,
              HasSubstr("# Transport: shared memory"));
  for (const auto& [words, message] :
       {std::pair{std::vector<std::string>{"gather"}, "gather is not supported on GPUs, only all_reduce, all_gather, "},
        {{"all_reduce", "-d", "int8"}, "-d int8 is not supported on GPUs, only float, half and bfloat16"},
        {{"all_reduce", "-o", "max"}, "-o max is not supported on GPUs, only sum; remove it, or add --device cpu"},
        {{"all_reduce", "-e", "4G"}, "are free on the GPU, but three times -e is needed"}}) {
    const Outcome refused = comm(words);
    EXPECT_EQ(refused.code, 2) << refused.output;
    EXPECT_THAT(refused.output, HasSubstr(message));
  }
  const Outcome threads = gpu_({"bench", "comm", "all_reduce", "-g", "8"});
  EXPECT_EQ(threads.code, 2) << threads.output;
  EXPECT_THAT(threads.output, HasSubstr("-g 8: each rank is a process with its own GPU; start 8 ranks: `mpirun -n 8 "
                                        "trireme bench comm ... -g 1`"));
}

TEST_F(GpuRanks, MeasureStepsBesideAGoal) {
  const std::vector<std::string> step{
      "bench", "step",    "--preset", "opt-8m",        "--dtype", "bf16",   "--batch",         "1",     "--seq",
      "8",     "--steps", "1",        "--peak-tflops", "1",       "--json", path("step.json"), "--goal"};
  const auto with = [&](const std::string& goal) {
    std::vector<std::string> words = step;
    words.push_back(goal);
    return words;
  };
  std::vector<std::string> of_two = with("1e9");
  of_two.insert(of_two.end(), {"--layouts", "2x1x1"});  // not also one rank's steps
  const Outcome below = gpu_.on_ranks(2, {ProgramOnGpu::with_nvml(), "FAKE_NVML=brake narrow"}, of_two);
  EXPECT_EQ(below.code, 3) << below.output;
  EXPECT_THAT(
      below.output,
      AllOf(HasSubstr("the executor, connected by sockets (commit"),
            HasSubstr("goal               1e+09 tokens/s (--goal): 0.0 % only\n"
                      "likely cause       GPU 1: its clocks are held down: HW Slowdown, HW Power Brake Slowdown\n"),
            HasSubstr("likely cause       GPU 1: PCIe x8 in use, x16 possible; copies are slower\n")));
  EXPECT_FALSE(read_json(path("step.json")).at("goal").at("reached"));
  std::vector<std::string> on_cpu = with("0.001");
  on_cpu.insert(on_cpu.end(), {"--device", "cpu"});
  const Outcome reached = done(gpu_(on_cpu));
  EXPECT_THAT(reached.output, AllOf(HasSubstr("goal               0.001 tokens/s (--goal): "),
                                    HasSubstr(" % reached\n"), Not(HasSubstr("likely cause"))));
  const Outcome cudnn = gpu_({"bench", "step", "--device", "cpu", "--cudnn"});
  EXPECT_EQ(cudnn.code, 2) << cudnn.output;
  EXPECT_THAT(cudnn.output, HasSubstr("--cudnn needs a GPU, and this measures the CPU; remove it"));
}

TEST_F(GpuRanks, TakeAGpuEach) {
  const Outcome few_gpus = gpu_.on_ranks(5, cuda("run"));
  EXPECT_EQ(few_gpus.code, 2) << few_gpus.output;
  EXPECT_THAT(few_gpus.output, HasSubstr("this host has more ranks than GPUs: CUDA shows 4; start one rank per GPU "
                                         "(CUDA_VISIBLE_DEVICES may hide some)"));
  const Variable one("TRIREME_EXECUTOR_GPUS", "1");
  const Outcome shared = gpu_.on_ranks(2, cuda("run"));
  EXPECT_EQ(shared.code, 2) << shared.output;
  EXPECT_THAT(shared.output, AllOf(HasSubstr("ranks 0 and 1 both use GPU 0 of "),
                                   HasSubstr(", which NCCL does not connect with itself; start one rank per GPU "
                                             "(CUDA_VISIBLE_DEVICES may hide some)")));
  const Outcome automatic = done(gpu_.on_ranks(2, few("cpus", {"--run.steps", "1"})));
  EXPECT_THAT(automatic.output,
              AllOf(HasSubstr("computing on CPUs: ranks 0 and 1 both use GPU 0 of "), Not(HasSubstr("the executor"))));
  const Variable own("TRIREME_EXECUTOR_HIDES", "1");
  EXPECT_THAT(done(gpu_.on_ranks(2, few("own", {"--run.steps", "1"}))).output,
              HasSubstr("the executor, connected by sockets"))
      << "a launcher that shows each rank its own";
}

TEST_F(GpuRanks, RecordWhatTheDriverSaysOfEachGpu) {
  const std::string library = ProgramOnGpu::with_nvml();
  const Variable nvml("LD_LIBRARY_PATH", library.substr(library.find('=') + 1));
  const Variable buses("TRIREME_EXECUTOR_BUSES", "0000:17:00.0,0000:65:00.0"), faults("FAKE_NVML", "busy ecc");
  done(gpu_.on_ranks(2, cuda("run", {"--log.metrics-file", path("gpu.prom"), "--run.steps", "2"})));
  EXPECT_THAT(read_text(path("gpu.prom")),
              AllOf(HasSubstr("trireme_gpu_busy_ratio{run=\"run\",rank=\"0\"} 0\n"),
                    HasSubstr("trireme_gpu_busy_ratio{run=\"run\",rank=\"1\"} 0.97\n"),
                    HasSubstr("trireme_gpu_uncorrected_errors_total{run=\"run\",rank=\"1\"} 3\n")));
}

TEST_F(GpuRanks, WhatOnlyCpusHaveIsNamed) {
  const Outcome shard = gpu_.on_ranks(2, cuda("run", {"--optim.shard", "gradients"}));
  EXPECT_EQ(shard.code, 2) << shard.output;
  EXPECT_THAT(
      shard.output,
      HasSubstr("optim.shard is gradients, which GPUs do not support: their memory is not given back in parts; set "
                "--optim.shard optimizer (shards the optimizer state), or --run.device cpu"));
  const Outcome tune = gpu_.on_ranks(2, cuda("run", {"--run.tune"}));
  EXPECT_EQ(tune.code, 2) << tune.output;
  EXPECT_THAT(tune.output, HasSubstr("run.tune times the products of one GPU, and several ranks would choose "
                                     "differently; remove it"));
  const Outcome sums = gpu_.on_ranks(2, few("run", {"--comm.reduce", "nccl", "--optim.shard", "parameters"}));
  EXPECT_EQ(sums.code, 2) << sums.output;
  EXPECT_THAT(sums.output, HasSubstr("comm.reduce is nccl, which adds gradients between GPUs, and this run computes on "
                                     "the CPU; set --comm.reduce auto"));
  const Outcome cpu = gpu_.on_ranks(2, few("run", {"--comm.reduce", "nccl", "--run.device", "cpu"}));
  EXPECT_EQ(cpu.code, 2) << cpu.output;
  EXPECT_THAT(cpu.output, HasSubstr("is nccl, which adds gradients between GPUs, and this run computes on CPUs; set "
                                    "--comm.reduce auto"));
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

TEST_F(GpuRanks, ConnectionsAreAbortedBeforeALostRanksPeersLeave) {
  for (const char* fault : {"hangs", "abort-hangs"}) {
    const Variable hangs("TRIREME_EXECUTOR_FAULT", fault + std::string(kCall));
    const Variable aborts("TRIREME_EXECUTOR_ABORTS", path(fault));
    const Outcome outcome = gpu_.on_ranks(2, cuda(std::string("run-") + fault, {"--run.hang-timeout", "3"}));
    EXPECT_EQ(outcome.code, 76) << outcome.output;
    EXPECT_THAT(outcome.output,
                AllOf(ContainsRegex("no rank can be blamed: no rank has made progress for 3"),
                      HasSubstr("waiting for the sum of gradients"), Not(HasSubstr("the connection was abandoned"))));
    // Of the job, and of the data ranks' sums.
    EXPECT_THAT(read_text(path(fault)), AllOf(HasSubstr("0 2\n"), HasSubstr("1 2\n")));
    const auto since = std::filesystem::file_time_type::clock::now() - std::filesystem::last_write_time(path(fault));
    EXPECT_LT(since, std::chrono::seconds(6)) << "two seconds for what hangs, and the end of mpirun";
  }
}

TEST_F(GpuRanks, ALostRankIsNamedAsOnCpus) {
  std::vector<std::string> named;
  for (const char* device : {"cuda", "cpu"}) {
    const std::string run = std::string("run-") + device;
    const Variable aborts("TRIREME_EXECUTOR_ABORTS", path("aborts"));
    Program program(gpu_.words_on_ranks(2, few(run, {"--run.steps", "5000", "--run.device", device})));
    ASSERT_TRUE(program.wait_for([](const std::string& output) { return output.find("step    3/") != output.npos; }))
        << program.output();
    kill(gpu_.pid_of_rank(1), SIGKILL);
    const Outcome outcome = program.finish();
    EXPECT_NE(outcome.code, 0);
    const RunStatus status = read_status(path(run));
    EXPECT_EQ(status.state, RunState::peer_lost) << outcome.output;
    EXPECT_EQ(status.code, 76);
    EXPECT_EQ(status.rank, 1);
    EXPECT_THAT(outcome.output, HasSubstr("exiting with code 76; start again to resume from the last checkpoint"));
    named.push_back(status.message.substr(0, status.message.find(" closed ")));
  }
  EXPECT_EQ(named[0], named[1]);
  EXPECT_THAT(named[0], AllOf(StartsWith("rank 1 on "), HasSubstr(" was lost (its connection")));
  EXPECT_THAT(read_text(path("aborts")), HasSubstr("0 2\n"));
}

TEST_F(GpuRanks, AHangOfTensorRanksNamesTheirSum) {
  const Variable fault("TRIREME_EXECUTOR_FAULT", "hangs 1 150");
  const Outcome outcome = gpu_.on_ranks(2, cuda("run", {"--run.hang-timeout", "2", "--mesh.tensor", "2"}));
  EXPECT_EQ(outcome.code, 76) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("waiting for a layer's sum over the tensor ranks"),
                                    Not(HasSubstr("the sum of gradients"))));
}

TEST_F(GpuRanks, AStoppedRunResumesOnAnotherLayout) {
  Program program(gpu_.words_on_ranks(2, cuda("run", {"--run.steps", "5000", "--optim.shard", "optimizer"})));
  ASSERT_TRUE(program.wait_for([](const std::string& output) { return output.find("step    3/") != output.npos; }))
      << program.output();
  kill(program.pid(), SIGUSR1);  // mpirun passes it on
  const Outcome stopped = program.finish();
  EXPECT_EQ(stopped.code, 75) << stopped.output;
  const std::string steps = std::to_string(progress("run").step + 1);
  done(gpu_.on_ranks(2, cuda("run", {"--run.steps", steps, "--mesh.pipeline", "2", "--optim.decay-steps", "5000"})));
  EXPECT_EQ(progress("run").step, std::stoll(steps));
}

TEST_F(GpuRanks, ALostRankEndsTheJobAsOnCpus) {
  const Variable fault("TRIREME_EXECUTOR_FAULT", std::string("dies") + kCall);
  const Outcome outcome = gpu_.on_ranks(2, cuda("run"));
  EXPECT_NE(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("rank 1 on "), HasSubstr("was lost"), HasSubstr("exiting with code 76")));
}

}  // namespace
}  // namespace trireme
