// `trireme device` with a driver's library that reports two GPUs, as a user runs it.

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/host.h"
#include "base/json.h"
#include "ops/gpu_node.h"
#include "tests/runs/program.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DeviceCommand : public ::testing::Test {
 protected:
  /// faults: of tests/runs/fake_nvml.cc.
  static Outcome device(const std::string& faults, std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), "device");
    const std::string build = std::filesystem::path(trireme_path()).parent_path();
    const char* const before = environment_variable("LD_LIBRARY_PATH");
    return run(
        trireme_command(flags),
        {fmt::format("LD_LIBRARY_PATH={}/tests/fake_nvml:{}", build, before ? before : ""), "FAKE_NVML=" + faults});
  }
};

TEST_F(DeviceCommand, ShowsWhatTheDriverReports) {
  const Outcome shown = device("");
  EXPECT_EQ(shown.code, 1) << "this build has no GPU library\n" << shown.output;
  EXPECT_THAT(shown.output,
              AllOf(HasSubstr("driver     580.159.04, CUDA up to 13.0\n"),
                    HasSubstr("GPU 0      NVIDIA H100 80GB HBM3, compute capability 9.0, 85.52 GB, 84.92 GB free, "
                              "00000000:17:00.0, PCIe 5 x16\n"),
                    HasSubstr("           busy 0 %, 34 C, 71 of 700 W, 0 memory errors uncorrected by ECC\n"),
                    HasSubstr("links        GPU0  GPU1\n  GPU0          -  NV18\n  GPU1       NV18     -\n"),
                    HasSubstr("usable     none: this build has no libtrireme_cuda.so"), Not(HasSubstr("warning"))));
  EXPECT_THAT(device("no-nvlink").output, HasSubstr("  GPU0          -   SYS\n"));
}

TEST_F(DeviceCommand, WarnsOfEveryGpuThatCannotBeUsedAsItIs) {
  const std::pair<const char*, const char*> cases[] = {
      {"lost", "GPU 1: GPU is lost (code 15); reset it (nvidia-smi --gpu-reset) or restart the node"},
      {"old", "GPU 1: compute capability 7.0, but at least 8.0 is needed"},
      {"mig", "GPU 1: MIG partitions it; turn MIG off with `nvidia-smi -mig 0` to use the whole GPU"},
      {"prohibited", "GPU 1: its compute mode is prohibited; set it with `nvidia-smi -c DEFAULT`"},
      {"ecc", "GPU 1: 3 memory errors that ECC could not correct since the driver was loaded"},
      {"narrow", "GPU 1: PCIe x8 in use, x16 possible; copies are slower"},
      {"busy", "GPU 1: 42.76 GB of its 85.52 GB are free; `nvidia-smi` names the programs on it"},
      {"apart", "GPU 0 and GPU 1 do not reach each other's memory: NCCL copies through the host's"},
      {"other", "the GPUs are not all of one kind; a job runs at the speed of the slowest"}};
  for (const auto& [fault, warning] : cases) EXPECT_THAT(device(fault).output, HasSubstr(warning)) << fault;
}

TEST_F(DeviceCommand, NamesItsOnlyAction) {
  const Outcome outcome = device("", {"chek"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.output,
              HasSubstr("trireme device: \"chek\" is not an action, the only one is check; name nodes with -f "
                        "or --hosts"));
}

TEST_F(DeviceCommand, SaysWhyThereIsNoGpu) {
  const Outcome none = device("none");
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.output, HasSubstr("no GPU     driver 580.159.04 reports no GPU\n"));
  EXPECT_THAT(device("not-loaded").output,
              HasSubstr("no GPU     NVIDIA's driver is installed but not loaded (modprobe nvidia shows why)\n"));
}

TEST_F(DeviceCommand, WritesJsonThatIsReadBack) {
  const Json document = parse_json(device("lost", {"--json"}).output, "device");
  const NodeGpus node = node_gpus_from_json(document);
  ASSERT_EQ(node.gpus.size(), 2u);
  EXPECT_EQ(node.gpus[0].uuid, "GPU-0");
  EXPECT_EQ(node.gpus[0].memory_bytes, 85520809984u);
  EXPECT_EQ(node.gpus[0].most_watts, 700);
  EXPECT_EQ(node.gpus[1].fault, "GPU is lost (code 15)");
  EXPECT_EQ(document.at("host"), host_name());
  EXPECT_EQ(document.at("usable"), "");
  EXPECT_EQ(document.at("warnings").size(), 1u);
  EXPECT_EQ(to_json(node_gpus_from_json(to_json(node))), to_json(node));
}

TEST_F(DeviceCommand, AsksTheNodesOfAList) {
  const Outcome asked = device("ecc", {"--hosts", host_name()});
  EXPECT_EQ(asked.code, 1);
  EXPECT_THAT(asked.output,
              AllOf(HasSubstr(host_name() + ": 2 x NVIDIA H100 80GB HBM3, 85.52 GB, driver 580.159.04; none "
                                            "is usable: this build has no libtrireme_cuda.so"),
                    HasSubstr(host_name() + ": warning: GPU 1: 3 memory errors")));
  EXPECT_EQ(parse_json(device("", {"--hosts", host_name(), "--json"}).output, "device").size(), 1u);
  EXPECT_THAT(device("", {"--num-nodes", "2"}).output, HasSubstr("--num-nodes select hosts; name hosts with -f"));
}

}  // namespace
}  // namespace trireme
