// `trireme launch` on a host with GPUs: the executor and, in place of the driver's library, tests/runs/fake_nvml.cc.

#include <sched.h>

#include "tests/gpu/gpu_program.h"
#include "tests/support/machine_xml.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class GpuLaunch : public GpuProgram {
 protected:
  void SetUp() override {
    if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  }
  /// Variables with two GPUs, and what is wrong with them.
  static std::vector<std::string> two_gpus(const std::string& faults, const std::vector<std::string>& more = {}) {
    const std::string build = std::filesystem::path(trireme_path()).parent_path();
    const char* const before = environment_variable("LD_LIBRARY_PATH");
    std::vector<std::string> variables{
        fmt::format("LD_LIBRARY_PATH={}/tests/fake_nvml:{}", build, before ? before : ""), "FAKE_NVML=" + faults,
        "TRIREME_EXECUTOR_GPUS=2"};
    variables.insert(variables.end(), more.begin(), more.end());
    return variables;
  }
  Outcome launch(const std::vector<std::string>& variables, const std::vector<std::string>& flags,
                 const std::vector<std::string>& command) const {
    std::vector<std::string> words{"launch", "--hosts", host_name()};
    words.insert(words.end(), flags.begin(), flags.end());
    words.push_back("--");
    words.insert(words.end(), command.begin(), command.end());
    return gpu_.with(variables, words);
  }
  Outcome preflight(const std::vector<std::string>& variables, std::vector<std::string> flags,
                    const std::vector<std::string>& more = {}) const {
    flags.emplace_back("--preflight-only");
    return launch(variables, flags, few("run", more));
  }
};

TEST_F(GpuLaunch, StartsARankForEachGpuOfAHost) {
  const Outcome started = done(launch(two_gpus(""), {}, few("run", {"--run.device", "cuda", "--run.steps", "2"})));
  EXPECT_THAT(started.output,
              AllOf(HasSubstr("preflight: GPUs of every host: 2 x NVIDIA H100 80GB HBM3, driver 580.159.04, sockets"),
                    HasSubstr("preflight: 2 ranks, one per GPU; change this with --ppn"),
                    HasSubstr(" planned for each GPU, 80.67 GB are free"),
                    HasSubstr("gpu        the executor, connected by sockets"), HasSubstr("done at step 2")));
}

TEST_F(GpuLaunch, PreflightNamesWhatKeepsGpusFromUse) {
  const struct {
    const char* faults;
    std::vector<std::string> variables, flags;
    const char* said;
  } cases[] = {
      {"lost", {}, {"--gpus-per-node", "2"}, "GPU 1: GPU is lost (code 15); reset it (nvidia-smi --gpu-reset)"},
      {"mig", {}, {"--gpus-per-node", "2"}, "GPU 1: MIG partitions it; turn MIG off with `nvidia-smi -mig 0`"},
      {"", {}, {"--gpus-per-node", "4"}, "it has 2 GPUs, but --gpus-per-node is 4; lower --gpus-per-node"},
      {"",
       {},
       {"--ppn", "3"},
       "3 ranks for 2 GPUs; start one rank per GPU: the slots of the hostfile, --ppn or "
       "--gpus-per-node"},
      {"", {"CUDA_VISIBLE_DEVICES=1"}, {"--ppn", "2"}, "2 ranks for 1 GPU (CUDA_VISIBLE_DEVICES is \"1\")"},
      {"", {}, {"--ppn", "2", "--env", "CUDA_VISIBLE_DEVICES=0"}, "2 ranks for 1 GPU (CUDA_VISIBLE_DEVICES is \"0\")"}};
  for (const auto& [faults, variables, flags, said] : cases) {
    const Outcome refused = preflight(two_gpus(faults, variables), flags);
    EXPECT_EQ(refused.code, 2) << said;
    EXPECT_THAT(refused.output, AllOf(HasSubstr(said), HasSubstr("nothing was started")));
  }
  EXPECT_THAT(preflight(two_gpus("apart"), {}).output,
              HasSubstr("GPU 0 and GPU 1 do not reach each other's memory: NCCL copies through the host's"));
  const Outcome without = launch({}, {"--preflight-only", "--gpus-per-node", "1"}, {"--version"});
  EXPECT_EQ(without.code, 0) << "the driver says nothing of the executor\n" << without.output;
  const Outcome cpus = preflight(two_gpus("lost"), {"--ppn", "1"}, {"--run.device", "cpu"});
  EXPECT_EQ(cpus.code, 0) << cpus.output;
}

TEST_F(GpuLaunch, PreflightNamesARunThatIsTooLargeForTheGpus) {
  const Outcome refused =
      preflight(two_gpus(""), {},
                {"--model.layers", "24", "--model.width", "4608", "--model.heads", "8", "--run.device", "cuda"});
  EXPECT_EQ(refused.code, 2) << refused.output;
  EXPECT_THAT(refused.output, AllOf(HasSubstr("the run does not fit: each GPU needs "),
                                    HasSubstr(", but 80.67 GB are free; this fits: --mesh.tensor ")));
}

TEST_F(GpuLaunch, DeviceSaysWhatConnectsGpus) {
  const Outcome shown = gpu_.with(two_gpus("", {"TRIREME_EXECUTOR_NETWORK=NCCL 2.28.9"}), {"device"});
  EXPECT_THAT(shown.output, HasSubstr("usable     the executor\nconnected  by NCCL 2.28.9\n"));
}

TEST_F(GpuLaunch, VariablesOfNcclReachTheRanks) {
  const auto variables = two_gpus("", {"NCCL_IB_DISABLE=1", "NCCL_SOCKET_IFNAME=eth7"});
  const Outcome shown = launch(variables, {"--dry-run", "--ppn", "2", "--env", "NCCL_SOCKET_IFNAME=eth0"}, few("run"));
  EXPECT_THAT(shown.output,
              AllOf(HasSubstr("NCCL_IB_DISABLE=1"), HasSubstr("NCCL_SOCKET_IFNAME=eth0"), Not(HasSubstr("eth7"))));
}

TEST_F(GpuLaunch, RanksComputeOnTheCoresOfTheirGpusNumaNode) {
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof cpus, &cpus) != 0 || !CPU_ISSET(0, &cpus) || !CPU_ISSET(1, &cpus))
    GTEST_SKIP() << "needs two cores";
  // Of two NUMA nodes with a core each, the first rank's GPU is near the second.
  MachineXml machine(2, 2, 2);
  machine.gpu(1, "0000:17:00.0", "mlx5_1").gpu(0, "0000:65:00.0", "mlx5_0");
  write_text(path("machine.xml"), machine.xml());
  const auto words = few("run", {"--run.steps", "2", "--run.device", "cuda"});
  const Outcome near = done(gpu_.on_ranks(2,
                                          {"HWLOC_XMLFILE=" + path("machine.xml"), "TRIREME_EXECUTOR_GPUS=2",
                                           "TRIREME_EXECUTOR_BUSES=0000:17:00.0,0000:65:00.0"},
                                          words));
  EXPECT_THAT(near.output,
              AllOf(HasSubstr("rank 0: GPU 0000:17:00.0, NUMA node 1, network mlx5_1: core 1 of socket 1, 1 thread"),
                    HasSubstr("rank 1: GPU 0000:65:00.0, NUMA node 0, network mlx5_0: core 0 of socket 0, 1 thread")));
  const Outcome bound = done(gpu_.on_ranks(2,
                                           {"HWLOC_XMLFILE=" + path("machine.xml"), "TRIREME_EXECUTOR_GPUS=2",
                                            "TRIREME_EXECUTOR_BUSES=0000:17:00.0,0000:65:00.0"},
                                           few("bound", {"--run.steps", "2", "--launch.bind", "inherit"})));
  EXPECT_THAT(bound.output, HasSubstr("as the launcher bound them"));
}

}  // namespace
}  // namespace trireme
