#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "cluster/health/nvidia_smi.h"
#include "tests/cluster/health/fake_node.h"
#include "tests/support/test_data.h"

namespace trireme::health {
namespace {

using testing::HasSubstr;

// The shape of `nvidia-smi -q`, with what each test varies.
constexpr const char* kQuery =
    "==============NVSMI LOG==============\n\nDriver Version   : 590.48.01\nAttached GPUs    : 1\n"
    "GPU 00000000:00:09.0\n"
    "    Persistence Mode                      : Enabled\n"
    "    GPU UUID                              : GPU-1\n"
    "    PCI\n        GPU Link Info\n            PCIe Generation\n                Max    : 5\n"
    "            Link Width\n                Max    : 16x\n                Current    : 16x\n"
    "    Clocks Event Reasons\n        Idle    : Active\n        SW Power Cap    : Active\n"
    "        HW Slowdown    : Not Active\n            HW Thermal Slowdown    : Not Active\n"
    "    ECC Errors\n        Volatile\n            SRAM Correctable    : 0\n"
    "            SRAM Uncorrectable Parity    : 0\n            DRAM Correctable    : 5\n"
    "        Aggregate\n            SRAM Uncorrectable    : 0\n            DRAM Uncorrectable    : 0\n"
    "    Retired Pages\n        Single Bit ECC    : 0\n        Double Bit ECC    : 0\n"
    "        Pending Page Blacklist    : No\n"
    "    Remapped Rows\n        Uncorrectable Error    : 0\n        Pending    : No\n"
    "        Remapping Failure Occurred    : No\n"
    "    Applications Clocks\n        Graphics    : 1980 MHz\n        Memory    : 2619 MHz\n"
    "    Max Clocks\n        Graphics    : 1980 MHz\n        Memory    : 2619 MHz\n";

class Gpu : public testing::Test {
 protected:
  Gpu() { node.answer("nvidia-smi -q", kQuery); }
  /// Changes one value of the report.
  void change(const std::string& from, const std::string& to) {
    std::string text = node.answers["nvidia-smi -q"].out;
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    node.answer("nvidia-smi -q", text.replace(at, from.size(), to));
  }
  void real(const std::string& command, const char* file) {
    node.answer(command, read_text(test_data_dir() / "parsers/nvidia-smi" / file));
  }
  std::string run(const std::string& line) { return node.run(line); }
  FakeNode node;
};

TEST_F(Gpu, AHealthyReportPassesEveryCheck) {
  for (const char* check : {"check_gpu_persistence", "check_gpu_ecc 20000000 10000", "check_app_gpu_clocks",
                            "check_gpu_pcie 5 16", "check_gpu_clock_throttling"}) {
    EXPECT_EQ(run(check), "") << check;
  }
}

TEST_F(Gpu, EveryEccFaultIsSeen) {
  const auto fault = [&](const std::string& from, const std::string& to) {
    node.answer("nvidia-smi -q", kQuery);
    change(from, to);
    return run("check_gpu_ecc 20000000 10000");
  };
  EXPECT_EQ(
      fault("Pending    : No", "Pending    : Yes"),
      "GPU 0 (00000000:00:09.0, GPU-1): a row remap is pending; reset it (nvidia-smi --gpu-reset -i 0) or restart the "
      "node");
  EXPECT_THAT(fault("Failure Occurred    : No", "Failure Occurred    : Yes"), HasSubstr("a row remap failed"));
  EXPECT_THAT(fault("Uncorrectable Error    : 0", "Uncorrectable Error    : 513"), HasSubstr("513 rows remapped"));
  EXPECT_EQ(fault("Uncorrectable Error    : 0", "Uncorrectable Error    : 512"), "");
  EXPECT_THAT(fault("Blacklist    : No", "Blacklist    : Yes"), HasSubstr("page retirement is pending"));
  EXPECT_THAT(fault("Single Bit ECC    : 0", "Single Bit ECC    : 60"), HasSubstr("60 pages retired"));
  EXPECT_THAT(fault("Uncorrectable Parity    : 0", "Uncorrectable Parity    : 1"),
              HasSubstr("1 uncorrectable SRAM errors (since the driver was loaded)"));
  EXPECT_THAT(fault("SRAM Uncorrectable    : 0", "SRAM Uncorrectable    : 2"),
              HasSubstr("2 uncorrectable SRAM errors (in its life)"));
  EXPECT_THAT(fault("SRAM Correctable    : 0", "SRAM Correctable    : 10001"),
              HasSubstr("10001 corrected SRAM errors"));
  EXPECT_EQ(fault("DRAM Correctable    : 5", "DRAM Correctable    : 9000000"), "")
      << "as text \"9000000\" is above \"20000000\"";
  EXPECT_THAT(fault("DRAM Correctable    : 5", "DRAM Correctable    : 100000000"), HasSubstr("above 20000000"));
}

TEST_F(Gpu, WhatTheDriverDoesNotReportHasNotPassed) {
  const auto kind = [&](const std::string& check) {
    const Plan plan = make_plan(parse_nhc_config("* || " + check + "\n"), "n1", {});
    return plan.steps.at(0).check(node.machine).kind;
  };
  node.answer("nvidia-smi -q",
              "==============NVSMI LOG==============\n\nAttached GPUs    : 1\nGPU 00000000:00:09.0\n    Persistence "
              "Mode : N/A\n"
              "    ECC Errors\n        Volatile\n            SRAM Correctable    : N/A\n"
              "    Remapped Rows    : N/A\n");
  for (const char* check : {"check_gpu_ecc", "check_gpu_persistence", "check_gpu_clock_throttling"})
    EXPECT_EQ(kind(check), Outcome::Kind::not_checked) << check;
}

TEST_F(Gpu, RealReportsOfHealthyDevicesPass) {
  TRIREME_NEEDS_TEST_DATA("parsers/nvidia-smi");
  for (const std::string device : {"h100-80gb-hbm3", "h200", "h200-mig"}) {
    for (const std::string state : {"idle", "load"}) {
      real("nvidia-smi -q", (device + "." + state + ".q.txt").c_str());
      EXPECT_EQ(run("check_gpu_ecc 20000000 10000"), "") << device;
      EXPECT_EQ(run("check_gpu_persistence"), "") << device;
      EXPECT_EQ(run("check_gpu_pcie 5 16"), "") << device;
      EXPECT_EQ(run("check_gpu_clock_throttling"), "") << device << state;
      EXPECT_EQ(run("check_app_gpu_clocks"), "remark: this driver or device has no application clocks");
    }
    EXPECT_EQ(run("check_gpu_count 1"), "") << device << ": MIG slices are not GPUs";
    EXPECT_EQ(run("check_gpu_count 8"),
              "1 GPU, expected 8; the others are not on the PCI bus; restart the node, and if they "
              "stay away, have it repaired");
  }
}

TEST_F(Gpu, RealReportOfADeviceWithoutPersistence) {
  TRIREME_NEEDS_TEST_DATA("parsers/nvidia-smi");
  real("nvidia-smi -q", "l40s.idle.q.txt");
  node.machine.repair = false;
  EXPECT_THAT(run("check_gpu_persistence"), HasSubstr("persistence mode is off"));
  EXPECT_EQ(run("check_gpu_pcie 4 16"), "");
  EXPECT_THAT(run("check_gpu_pcie 5"), HasSubstr("PCIe generation 4, expected 5"));
}

TEST_F(Gpu, RealRetiredPages) {
  TRIREME_NEEDS_TEST_DATA("parsers/nvidia-smi");
  real("nvidia-smi -q", "azure_orig_nvsmi8_output.txt");
  EXPECT_EQ(run("check_gpu_ecc"), "");
  real("nvidia-smi -q", "azure_bad_nvsmi8_output.txt");
  EXPECT_THAT(run("check_gpu_ecc"), HasSubstr("GPU 0 (00000001:00:00.0): 65 pages retired, 60 is the limit"));
  const SmiReport report = parse_smi_query(node.answers["nvidia-smi -q"].out);
  EXPECT_EQ(report.attached, 8);
  ASSERT_EQ(report.gpus.size(), 8u);
  EXPECT_EQ(report.gpus[1].value("Retired Pages/Pending Page Blacklist"), "Yes");
  EXPECT_EQ(report.gpus[5].number("Retired Pages/Double Bit ECC", -1), 45);
}

TEST_F(Gpu, RealNvlinkStates) {
  TRIREME_NEEDS_TEST_DATA("parsers/nvidia-smi");
  const std::string command = "nvidia-smi nvlink -s";
  real(command, "azure_good_nvlink_status.txt");
  EXPECT_EQ(run("check_nvlink_status"), "");
  real(command, "h100-80gb-hbm3.cap.nvlink-s.txt");
  EXPECT_EQ(run("check_nvlink_status"), "");
  EXPECT_EQ(parse_nvlink_status(node.answers[command].out)[0].active, 18);
  real(command, "azure_bad_nvlink_status.txt");
  EXPECT_THAT(run("check_nvlink_status"), HasSubstr("GPU 6: NVIDIA A100-SXM4-80GB"));
  EXPECT_THAT(run("check_nvlink_status"), HasSubstr("all NVLinks are down"));
  real(command, "l40s.cap.nvlink-s.txt");
  EXPECT_THAT(run("check_nvlink_status"), HasSubstr("remark: "));
  real(command, "h200-mig.cap.nvlink-s.txt");
  EXPECT_THAT(run("check_nvlink_status"), HasSubstr("no NVLink to check"));
}

TEST_F(Gpu, OneInactiveLinkIsEnough) {
  node.answer("nvidia-smi nvlink -s", "GPU 0: X (UUID: u)\n\t Link 0: 25 GB/s\n\t Link 1: <inactive>\n");
  EXPECT_THAT(run("check_nvlink_status"), HasSubstr("GPU 0: X (UUID: u): 1 of 2 NVLinks are down"));
  node.answer("nvidia-smi nvlink -s", "garbage\n");
  EXPECT_THAT(run("check_nvlink_status"), HasSubstr("not the output of"));
}

TEST_F(Gpu, EveryXidOfTheListIsFoundAnywhere) {
  node.file("/proc/uptime", "10000.0 1\n");
  for (int code : {48, 56, 57, 58, 62, 63, 64, 65, 68, 69, 73, 74, 79, 80, 81, 92, 94, 95, 119, 120}) {
    node.answer("dmesg",
                "[    1.0] NVRM: loading\n[ 9999.0] NVRM: Xid (PCI:0000:3b:00): 13, pid=1\n[ 9999.5] NVRM: Xid "
                "(PCI:0000:3b:00): " +
                    std::to_string(code) + ", pid=2, Row Remapper\n");
    EXPECT_THAT(run("check_gpu_xid"), HasSubstr("Xid " + std::to_string(code) + " on PCI:0000:3b:00")) << code;
  }
  node.answer("dmesg", "[ 1.0] NVRM: Xid (PCI:0000:3b:00): 13, pid=1\n[ 2.0] NVRM: Xid (PCI:0000:3b:00): 480, x\n");
  EXPECT_EQ(run("check_gpu_xid"), "") << "13 and 480 are not on the list";
  node.answer("dmesg", "[ 100.0] NVRM: Xid (PCI:0000:3b:00): 119, pid=1\n");
  EXPECT_EQ(run("check_gpu_xid"), "") << "119 is forgiven after two hours";
  node.answer("dmesg", "", 1);
  EXPECT_THAT(run("check_gpu_xid"), HasSubstr("cannot read Xid events"));
}

TEST_F(Gpu, RepairsAreMadeAndLookedAtAgain) {
  change("Persistence Mode                      : Enabled", "Persistence Mode                      : Disabled");
  EXPECT_THAT(run("check_gpu_persistence"), HasSubstr("persistence mode is off"));
  EXPECT_THAT(node.commands, testing::Contains("nvidia-smi -i 00000000:00:09.0 -pm 1"));
  node.on_command = [&](const std::string& line) {
    if (line.ends_with("-pm 1") || line.ends_with("-ac 2619,1980")) node.answer("nvidia-smi -q", kQuery);
  };
  EXPECT_EQ(run("check_gpu_persistence"), "remark: switched persistence mode on");
  change("Graphics    : 1980 MHz\n        Memory    : 2619 MHz\n    Max",
         "Graphics    : 900 MHz\n        Memory    : 2619 MHz\n    Max");
  EXPECT_EQ(run("check_app_gpu_clocks"), "remark: raised application clocks to their maximum");
  change("Graphics    : 1980 MHz\n        Memory    : 2619 MHz\n    Max",
         "Graphics    : 900 MHz\n        Memory    : 2619 MHz\n    Max");
  node.machine.repair = false;
  EXPECT_EQ(
      run("check_app_gpu_clocks"),
      "GPU 0 (00000000:00:09.0, GPU-1): graphics application clock 900 MHz, below its maximum 1980 MHz; raise both "
      "with nvidia-smi -i 0 -ac 2619,1980");
}

TEST_F(Gpu, ThrottlingIsReportedAndWidthIsChecked) {
  change("HW Thermal Slowdown    : Not Active", "HW Thermal Slowdown    : Active");
  EXPECT_THAT(run("check_gpu_clock_throttling"), HasSubstr("HW Thermal Slowdown, SW Power Cap holds its clocks down"));
  change("Current    : 16x", "Current    : 8x");
  EXPECT_THAT(run("check_gpu_pcie"), HasSubstr("GPU 0 (00000000:00:09.0, GPU-1): PCIe link of 8 lanes, expected 16"));
}

TEST_F(Gpu, ExitCodesOfNvidiaSmiAreExplained) {
  node.answer("nvidia-smi", "", 15);
  EXPECT_EQ(run("check_nvsmi_healthmon"), "nvidia-smi ended with code 15: a GPU fell off the bus");
  node.answer("nvidia-smi", "");
  EXPECT_EQ(run("check_nvsmi_healthmon"), "");
  node.answer("nvidia-smi -q", "", 9);
  EXPECT_THAT(run("check_gpu_ecc"), HasSubstr("the driver is not loaded"));
  node.answer("nvidia-smi -q", "no gpu here");
  EXPECT_THAT(run("check_gpu_ecc"), HasSubstr("not the output of"));
  EXPECT_EQ(run("check_nv_healthmon"),
            "remark: this node has no dcgmi; install NVIDIA's datacenter-gpu-manager");  // not checked
  node.answer("dcgmi diag -r 1", "", 1);
  EXPECT_THAT(run("check_nv_healthmon"), HasSubstr("dcgmi diag -r 1 ended with code 1"));
  node.answer("dcgmi diag -r 1", "| Deployment | Pass |\n");
  EXPECT_EQ(run("check_nv_healthmon"), "");
}

}  // namespace
}  // namespace trireme::health
