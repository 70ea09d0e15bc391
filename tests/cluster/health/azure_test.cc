// An Azure ND node with eight GPUs, made of files, programs' answers and a library in place of NVML: Azure's files find
// nothing wrong with it, and each fault drains it with a message that names the GPU and says what to do.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "cluster/health/run.h"
#include "tests/cluster/health/fake_node.h"
#include "tests/support/paths.h"
#include "tests/support/test_data.h"

namespace trireme::health {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kCopyTable =
    "Running host_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n           0         1\n"
    " 0     55.20     54.90\n\nSUM host_to_device_memcpy_ce 110.10\n\nRunning device_to_host_memcpy_ce.\n"
    "memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)\n           0         1\n 0     53.10     20.50\n";
constexpr const char* kPeerTable =
    "Running device_to_device_memcpy_read_ce.\nmemcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n"
    "           0         1\n 0       N/A    390.10\n 1    391.20       N/A\n\nSUM device_to_device_memcpy_read_ce "
    "781.3\n";
constexpr const char* kSum =
    "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    " 17179869184    4294967296     float     sum      -1    62400  275.32  481.81      0\n"
    "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 481.81\n";
constexpr const char* kWrites =
    " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
    " 8388608    5000             393.10             392.80             0.005851\n";

class Azure : public testing::Test {
 protected:
  Azure() {
    node.machine.nvml_library =
        std::filesystem::path(trireme_path()).parent_path() / "tests/fake_nvml/libnvidia-ml.so.1";
    setenv("FAKE_NVML_GPUS", "8", 1);
    setenv("FAKE_NVML", "", 1);
    setenv("AZ_NHC_ROOT", "/azure", 1);
    write_cpus();
    write_devices();
    write_system();
    node.machine.measure_copies = [](int gpus) {
      MeasuredCopies measured;
      for (int i = 0; i < gpus; ++i) measured.gpus.push_back({i, 55.1, 54.2});
      return measured;
    };
    answers = {{"curl", "Standard_ND96isr_H100_v5"},
               {"nvbandwidth", kPeerTable},
               {"all_reduce_perf", kSum},
               {"sh", kWrites},
               {"dmesg", "[ 1.0] NVRM: loading\n"},
               {"dcgmi", "| Deployment | Pass |\n"}};
    node.machine.run = [this](const ProcessRequest& request) {
      const std::string program = request.arguments[0].substr(request.arguments[0].rfind('/') + 1);
      const auto found = answers.find(program);
      return found == answers.end() ? ProcessResult{127, false, "", "", 0}
                                    : ProcessResult{0, false, found->second, "", 0};
    };
  }
  ~Azure() override {
    for (const char* name : {"FAKE_NVML_GPUS", "FAKE_NVML", "AZ_NHC_ROOT"}) unsetenv(name);
  }

  void write_cpus() {
    std::string cpus;
    for (int i = 0; i < 96; ++i) {
      cpus += fmt::format("processor\t: {}\nphysical id\t: {}\ncore id\t\t: {}\ncpu cores\t: 48\nsiblings\t: 48\n\n", i,
                          i / 48, i % 48);
    }
    node.file("/proc/cpuinfo", cpus);
    memory_kb(1915071LL * 1024);
    node.file("/proc/loadavg", "1.0 1.0 1.0 1/900 1\n");
    node.file("/proc/uptime", "90000.0 1\n");
  }
  void memory_kb(int64_t total) {
    node.file("/proc/meminfo", fmt::format("MemTotal: {0} kB\nMemFree: {0} kB\nCached: 900 kB\nSwapTotal: 0 kB\n"
                                           "SwapFree: 0 kB\n",
                                           total));
  }
  void write_ports(int gbit) {
    for (int i = 0; i < 8; ++i) write_port(fmt::format("mlx5_ib{}", i), gbit, "InfiniBand");
    write_port("mlx5_an0", gbit == 400 ? 100 : 40, "Ethernet");
  }
  void write_port(const std::string& name, int gbit, const std::string& layer) {
    const std::string port = "/sys/class/infiniband/" + name + "/ports/1/";
    node.file(port + "state", "4: ACTIVE\n");
    node.file(port + "phys_state", "5: LinkUp\n");
    node.file(port + "rate", fmt::format("{} Gb/sec (4X)\n", gbit));
    node.file(port + "link_layer", layer + "\n");
  }
  void write_devices() {
    write_ports(400);
    for (const char* name : {"lo", "eth0", "eth1", "docker0", "ib0", "ib1", "ib2", "ib3", "ib4", "ib5", "ib6", "ib7"})
      node.file(std::string("/sys/class/net/") + name + "/mtu", "1500\n");
    for (int i = 0; i < 8; ++i) node.file(fmt::format("/sys/class/nvme/nvme{}/model", i), "x\n");
    std::string topology = "<system version=\"1\">\n";
    const char* const buses[] = {"0001", "0002", "0003", "0008", "0009", "000a", "000b", "000c"};
    for (int i = 0; i < 8; ++i) {
      const std::string device = fmt::format("/sys/bus/pci/devices/{}:00:00.0/", buses[i]);
      node.file(device + "vendor", "0x10de\n");
      node.file(device + "class", "0x030200\n");
      node.file(device + "numa_node", fmt::format("{}\n", i / 4));
      if (i % 4 == 0) topology += fmt::format("  <cpu numaid=\"{}\" arch=\"x86_64\">\n", i / 4);
      topology += fmt::format(
          "    <pci busid=\"ffff:0{}:01.0\" class=\"0x060400\">\n"
          "      <pci busid=\"{}:00:00.0\" class=\"0x030200\" link_width=\"16\"/>\n    </pci>\n",
          i, buses[i]);
      if (i % 4 == 3) topology += "  </cpu>\n";
    }
    for (const char* name : {"ndv4-topo.xml", "ndv5-topo.xml"})
      node.file(std::string("/azure/topofiles/") + name, topology + "</system>\n");
  }
  /// What the files for Slurm check besides.
  void write_system() {
    std::string mounts;
    const std::pair<const char*, const char*> kMounts[] = {{"sysfs", "sysfs /sys"},
                                                           {"proc", "proc /proc"},
                                                           {"devtmpfs", "devtmpfs /dev"},
                                                           {"devpts", "devpts /dev/pts"},
                                                           {"tmpfs", "tmpfs /run"},
                                                           {"ext4", "/dev/root /"},
                                                           {"securityfs", "securityfs /sys/kernel/security"},
                                                           {"tmpfs", "tmpfs /dev/shm"},
                                                           {"tmpfs", "tmpfs /run/lock"},
                                                           {"pstore", "pstore /sys/fs/pstore"},
                                                           {"efivarfs", "efivarfs /sys/firmware/efi/efivars"},
                                                           {"hugetlbfs", "hugetlbfs /dev/hugepages"},
                                                           {"mqueue", "mqueue /dev/mqueue"},
                                                           {"debugfs", "debugfs /sys/kernel/debug"},
                                                           {"vfat", "/dev/sda15 /boot/efi"},
                                                           {"fusectl", "fusectl /sys/fs/fuse/connections"},
                                                           {"configfs", "configfs /sys/kernel/config"},
                                                           {"ext4", "/dev/sdb1 /mnt"},
                                                           {"tracefs", "tracefs /sys/kernel/debug/tracing"},
                                                           {"nfs4", "10.0.0.4:/sched /sched"},
                                                           {"nfs4", "10.0.0.4:/shared /shared"},
                                                           {"xfs", "/dev/md10 /mnt/resource_nvme"}};
    for (const auto& [type, place] : kMounts) mounts += fmt::format("{} {} rw,relatime 0 0\n", place, type);
    node.file("/proc/mounts", mounts + "tmpfs /sys/fs/cgroup tmpfs ro,nosuid 0 0\n");
    node.file("/proc/mdstat",
              "md10 : active raid0 nvme0n1[0] nvme1n1[1] nvme2n1[2] nvme3n1[3] nvme4n1[4] nvme5n1[5] "
              "nvme6n1[6] nvme7n1[7]\n");
    node.file("/var/log/syslog", "Aug 17 06:18:01 n1 kernel: ready\n");
    node.space = Space{.total_kb = 1000, .free_kb = 900, .used_kb = 100, .inodes = 1000, .inodes_free = 900};
    node.processes = {{1, "root", "sshd", "sshd: /usr/sbin/sshd -D"}, {2, "root", "rpc.statd", "rpc.statd"}};
  }

  Report run(const std::string& text) {
    CheckOptions options;
    options.all = true;
    options.seconds = 60;
    return run_plan(make_plan(parse_nhc_config(text), "n1", {}), node.machine, options);
  }
  /// The result of one line: the failure's text, or all of it if there is none.
  std::string result_of(const std::string& check, const std::string& faults) {
    setenv("FAKE_NVML", faults.c_str(), 1);
    return one_line_per_node(run("* || " + check + "\n"));
  }

  FakeNode node;
  std::map<std::string, std::string> answers;
};

TEST_F(Azure, AHealthyNodePassesEveryGpuCheck) {
  EXPECT_EQ(one_line_per_node(run("* || check_hw_topology\n* || check_nvme_count 8\n* || check_gpu_count 8\n"
                                  "* || check_nvsmi_healthmon\n* || check_gpu_xid\n* || check_gpu_bw 48 335\n"
                                  "* || check_cuda_bw 52 10\n* || check_gpu_persistence\n* || check_app_gpu_clocks\n"
                                  "* || check_gpu_ecc 20000000 10000\n* || check_gpu_clock_throttling\n"
                                  "* || check_nccl_allreduce 460.0 1 16G $AZ_NHC_ROOT/topofiles/ndv5-topo.xml\n"
                                  "* || check_nccl_allreduce_ib_loopback 40.0 10\n* || check_nvlink_status\n"
                                  "* || check_gpu_pcie 5 16\n* || check_vbios_version 96.00.89.00.01\n"
                                  "* || check_ib_bw_gdr 380\n* || check_ib_bw_loop_gdr 380 nd96isr_v5\n")),
            "n1 | Healthy\n");
}

TEST_F(Azure, FilesOfAzureFindNothingWrongWithAHealthyNode) {
  TRIREME_NEEDS_TEST_DATA("parsers/nhc");
  struct Case {
    const char *file, *size;
    int gbit;
    int64_t memory_kb;
  };
  for (const Case& one : {Case{"azure_nd96asr_v4.conf", "Standard_ND96asr_v4", 200, 928858388},
                          {"azure_nd96amsr_a100_v4.conf", "Standard_ND96amsr_A100_v4", 200, 1857830712},
                          {"azure_nd96isr_h100_v5.conf", "Standard_ND96isr_H100_v5", 400, 1915071LL * 1024},
                          {"azurehpc_slurm_nd96amsr_v4.conf", "Standard_ND96amsr_A100_v4", 200, 1857830712},
                          {"azurehpc_slurm_nd96isr_v5.conf", "Standard_ND96isr_H100_v5", 400, 1915071LL * 1024}}) {
    memory_kb(one.memory_kb);
    write_ports(one.gbit);
    answers["curl"] = one.size;
    const Report report = run(read_text(test_data_dir() / "parsers/nhc" / one.file));
    EXPECT_EQ(one_line_per_node(report), "n1 | Healthy\n") << one.file;
    EXPECT_GT(report.checked(), 30u) << one.file;
  }
}

TEST_F(Azure, ItsFileForAmdsGpusDrainsNoHealthyNode) {
  TRIREME_NEEDS_TEST_DATA("parsers/nhc");
  node.machine.nvml_library = "/no-libnvidia-ml.so.1";
  for (const std::string& place : node.machine.list("/sys/bus/pci/devices"))
    node.file("/sys/bus/pci/devices/" + place + "/vendor", "0x1002\n");
  for (int i = 0; i < 8; ++i) answers["rocm-smi"] += fmt::format("GPU[{}]\t\t: Device Name: x\n", i);
  EXPECT_EQ(
      one_line_per_node(run(read_text(test_data_dir() / "parsers/nhc/azure_nd96isr_mi300x_v5.conf"))),
      "n1 | Healthy (2 of 26 not checked: check_gpu_bw, check_rccl_allreduce (this node has no GPU of NVIDIA's; not "
      "implemented in trireme))\n");
}

TEST_F(Azure, ChecksOfNvidiasGpusAreNotCheckedWhereGpusAreAmds) {
  node.machine.nvml_library = "/no-libnvidia-ml.so.1";
  for (const std::string& place : node.machine.list("/sys/bus/pci/devices"))
    node.file("/sys/bus/pci/devices/" + place + "/vendor", "0x1002\n");
  for (const char* check :
       {"check_nvsmi_healthmon", "check_nv_healthmon", "check_gpu_persistence", "check_app_gpu_clocks", "check_gpu_ecc",
        "check_gpu_clock_throttling", "check_gpu_xid", "check_nvlink_status", "check_gpu_pcie 5 16",
        "check_vbios_version 1", "check_cuda_bw 52", "check_gpu_bw 48 335", "check_nccl_allreduce 460",
        "check_nccl_allreduce_ib_loopback 40", "check_ib_bw_gdr 380", "check_ib_bw_loop_gdr 380"}) {
    const std::string name = std::string(check).substr(0, std::string(check).find(' '));
    EXPECT_EQ(one_line_per_node(run(fmt::format("* || {}\n", check))),
              fmt::format("n1 | Not checked: {} (this node has no GPU of NVIDIA's)\n", name));
  }
  EXPECT_EQ(one_line_per_node(run("* || check_gpu_count 8 rocm\n")),
            "n1 | Not checked: check_gpu_count (this node has no rocm-smi, which counts AMD's GPUs)\n");
  EXPECT_EQ(one_line_per_node(run("* || check_gpu_count 8\n")),
            "n1 | ERROR: nhc: Health check failed: check_gpu_count: no GPU of NVIDIA's on this node, expected 8; AMD's "
            "are counted by `check_gpu_count 8 rocm`\n");
  answers["rocm-smi"] = "GPU[0]\t\t: Device Name: x\n";
  EXPECT_THAT(one_line_per_node(run("* || check_gpu_count 8 rocm\n")), HasSubstr("1 GPU, expected 8"));
}

TEST_F(Azure, ACountOfAmdsGpusFailsOnANodeWithout) {
  EXPECT_EQ(one_line_per_node(run("* || check_gpu_count 8 rocm\n")),
            "n1 | ERROR: nhc: Health check failed: check_gpu_count: no GPU of AMD's on this node, expected 8\n");
}

TEST_F(Azure, ToolsThatAreMissingDrainNoNode) {
  for (const char* tool : {"curl", "nvbandwidth", "all_reduce_perf", "sh", "dmesg", "dcgmi"}) answers.erase(tool);
  node.machine.measure_copies = {};
  const Report report =
      run("* || check_hw_topology\n* || check_gpu_xid\n* || check_gpu_bw 48 335\n* || check_cuda_bw 52\n"
          "* || check_nccl_allreduce 460\n* || check_ib_bw_gdr 380\n* || check_gpu_count 8\n"
          "* || check_nv_healthmon\n");
  EXPECT_TRUE(report.healthy());
  EXPECT_EQ(report.checked(), 1u);
  EXPECT_THAT(
      one_line_per_node(report),
      AllOf(HasSubstr("n1 | Healthy (7 of 8 not checked: "),
            HasSubstr("this node has no dcgmi; install NVIDIA's datacenter-gpu-manager"),
            HasSubstr("its line names no topology file, and this is not an Azure node of a known kind"),
            HasSubstr("cannot read Xid events: neither dmesg nor journalctl -k can be used; run as root"),
            HasSubstr("cannot measure copies: this build has no libtrireme_cuda.so, and this node has no nvbandwidth"),
            HasSubstr("this node has no all_reduce_perf of nccl-tests (in /opt/nccl-tests/build or PATH), and this "
                      "build has no libtrireme_cuda.so"),
            HasSubstr("this node has no ib_write_bw; install perftest")));
}

TEST_F(Azure, EachFaultDrainsTheNodeAndSaysWhichGpuItIsAndWhatToDo) {
  node.machine.repair = false;
  const std::string gpu = "GPU 1 (00000002:00:00.0, GPU-1): ";
  const std::string replace = "; take the node out of service and have the GPU replaced";
  const std::string reset = "; reset it (nvidia-smi --gpu-reset -i 1) or restart the node";
  struct Case {
    std::string check, fault, text;
  };
  for (const Case& one : {
           Case{"check_gpu_count 8", "lost",
                "7 GPUs, expected 8; GPU 1: GPU is lost (code 15); GPU at 0002:00:00.0: on the PCI bus, but the driver "
                "does not list it; restart the node, and if they stay away, have it repaired"},
           {"check_nvsmi_healthmon", "lost", "GPU 1: GPU is lost (code 15)" + reset},
           {"check_nvsmi_healthmon", "inforom", gpu + "its infoROM is corrupt" + replace},
           {"check_nvsmi_healthmon", "not-loaded",
            "NVIDIA's driver is installed but not loaded (modprobe nvidia shows why)"},
           {"check_gpu_ecc", "remap-pending", gpu + "a row remap is pending" + reset},
           {"check_gpu_ecc", "remap-failed", gpu + "a row remap failed" + replace},
           {"check_gpu_ecc", "rows", gpu + "600 rows remapped, above 512" + replace},
           {"check_gpu_ecc", "retired", gpu + "64 pages retired, 60 is the limit" + replace},
           {"check_gpu_ecc", "sram", gpu + "2 uncorrectable SRAM errors (since the driver was loaded)" + replace},
           {"check_gpu_ecc", "dram",
            gpu + "30000000 corrected DRAM errors (in its life), above 20000000; have the GPU examined (dcgmi diag -r "
                  "3), and replaced if it fails"},
           {"check_gpu_clock_throttling", "hot",
            gpu + "HW Slowdown, HW Thermal Slowdown holds its clocks down; check its cooling and power (nvidia-smi -q "
                  "-i 1 -d PERFORMANCE,TEMPERATURE,POWER)"},
           {"check_gpu_clock_throttling", "brake", gpu + "HW Slowdown, HW Power Brake Slowdown holds its clocks down"},
           {"check_gpu_persistence", "transient",
            gpu + "persistence mode is off; switch it on (nvidia-smi -i 1 -pm 1, or the service "
                  "nvidia-persistenced)"},
           {"check_app_gpu_clocks", "slack",
            gpu + "graphics application clock 1200 MHz, below its maximum 1980 MHz; raise both with nvidia-smi -i 1 "
                  "-ac 2619,1980"},
           {"check_nvlink_status", "link-down",
            gpu + "1 of 18 NVLinks are down; restart nvidia-fabricmanager and the node; if that does not help, have "
                  "GPU and "
                  "NVSwitch examined"},
           {"check_gpu_pcie", "narrow",
            gpu + "PCIe link of 8 lanes, expected 16; restart the node, and if that does not help, have the GPU "
                  "reseated"},
           {"check_vbios_version 1", "",
            "GPU 0 (00000001:00:00.0, GPU-0): VBIOS 96.00.89.00.01, expected 1; update it or have the node replaced"},
       }) {
    const std::string name = one.check.substr(0, one.check.find(' '));
    EXPECT_THAT(result_of(one.check, one.fault),
                HasSubstr("n1 | ERROR: nhc: Health check failed: " + name + ": " + one.text))
        << one.fault;
  }
  EXPECT_EQ(result_of("check_gpu_clock_throttling", "warm"), "n1 | Healthy\n") << "not the node's fault";
  EXPECT_EQ(result_of("check_gpu_clock_throttling", "capped"), "n1 | Healthy\n");
  EXPECT_EQ(result_of("check_nvlink_status", "no-nvlink"), "n1 | Healthy\n");
}

TEST_F(Azure, AGpuThatLeftThePciBusIsMissed) {
  setenv("FAKE_NVML_GPUS", "7", 1);
  std::filesystem::remove_all(node.machine.root + "/sys/bus/pci/devices/000c:00:00.0");
  EXPECT_THAT(result_of("check_gpu_count 8", ""),
              HasSubstr("7 GPUs, expected 8; the others are not on the PCI bus; restart the node"));
  EXPECT_THAT(result_of("check_gpu_count 6", ""), HasSubstr("7 GPUs, expected 6"));
  EXPECT_THAT(result_of("check_hw_topology", ""),
              HasSubstr("check_hw_topology: the GPU 000c:00:00.0 of NUMA node 1 is missing (/azure/topofiles/"
                        "ndv5-topo.xml); restart the node, and if that does not help, have it repaired or replaced"));
}

TEST_F(Azure, TopologyIsComparedWithTheFile) {
  node.file("/sys/bus/pci/devices/0003:00:00.0/numa_node", "1\n");
  EXPECT_THAT(result_of("check_hw_topology /azure/topofiles/ndv4-topo.xml", ""),
              HasSubstr("the GPU 0003:00:00.0 is at NUMA node 1, expected 0"));
  EXPECT_EQ(result_of("check_hw_topology /missing.xml", ""),
            "n1 | Not checked: check_hw_topology (the topology file /missing.xml is missing)\n");
  node.file("/other.xml", "<html/>");
  EXPECT_THAT(result_of("check_hw_topology /other.xml", ""),
              HasSubstr("/other.xml is not a topology file of NCCL: it has no <system>"));
  answers["curl"] = "Standard_NC24ads_A100_v4";
  EXPECT_EQ(result_of("check_hw_topology", ""),
            "n1 | Not checked: check_hw_topology (the topology file /opt/microsoft/ncv4-topo.xml is missing; name it: "
            "check_hw_topology FILE)\n");
}

TEST_F(Azure, XidsNameTheirGpuAndWhatToDo) {
  answers["dmesg"] = "[89999.5] NVRM: Xid (PCI:0008:00:00): 79, pid=2, GPU has fallen off the bus.\n";
  EXPECT_THAT(result_of("check_gpu_xid", ""),
              HasSubstr("check_gpu_xid: Xid 79 on GPU 3 (00000008:00:00.0, GPU-3): it fell off the bus; restart the "
                        "node; if it happens again, have the GPU replaced. The kernel wrote: [89999.5] NVRM: Xid"));
  node.file("/var/log/kern.log", "NVRM: Xid (PCI:0009:00:00): 74, pid=2, NVLink: fatal error\n");
  EXPECT_THAT(result_of("check_gpu_xid /var/log/kern.log", ""), HasSubstr("Xid 74 on GPU 4"));
  EXPECT_THAT(result_of("check_gpu_xid /nowhere", ""), HasSubstr("cannot read Xid events: /nowhere cannot be read"));
}

TEST_F(Azure, SlowCopiesAndSumsAreFailures) {
  node.machine.measure_copies = [](int) { return MeasuredCopies{.gpus = {{0, 55.1, 54.2}, {1, 12.31, 54.2}}}; };
  EXPECT_THAT(result_of("check_cuda_bw 52", ""),
              HasSubstr("check_cuda_bw: GPU 1 (00000002:00:00.0, GPU-1): copies from the host at 12.3 GB/s, below 52; "
                        "check_gpu_pcie and `nvidia-smi -q -i 1 -d CLOCK,PERFORMANCE` may say why"));
  int asked = 0;
  node.machine.measure_copies = [&](int) { return MeasuredCopies{.gpus = {{0, ++asked < 3 ? 5.0 : 54.2, 54.2}}}; };
  EXPECT_EQ(node.run("check_cuda_bw 52 10"), "remark: copies from and to the host at 54.2 GB/s or more");
  EXPECT_EQ(asked, 3);

  node.machine.measure_copies = {};
  answers["nvbandwidth"] = kCopyTable;
  EXPECT_THAT(result_of("check_cuda_bw 48", ""),
              HasSubstr("GPU 1 (00000002:00:00.0, GPU-1): copies to the host at 20.5 GB/s, below 48"));
  EXPECT_EQ(result_of("check_cuda_bw 20", ""), "n1 | Healthy\n");
  answers["nvbandwidth"] = std::string(kCopyTable) + kPeerTable;
  EXPECT_THAT(result_of("check_gpu_bw 20 390.5", ""),
              HasSubstr("check_gpu_bw: GPU 1 (00000002:00:00.0, GPU-1): reads GPU 0 at 390.1 GB/s, below 390.5; "
                        "check_nvlink_status may say why"));

  EXPECT_THAT(result_of("check_nccl_allreduce 490 2 16G /missing.xml", ""),
              HasSubstr("check_nccl_allreduce: NCCL's sum over 8 GPUs of the node at 481.8 GB/s, below 490 in 2 tries, "
                        "without /missing.xml, which is missing; check_nvlink_status, check_gpu_ecc and "
                        "check_gpu_clock_throttling may say which GPU it is"));
  EXPECT_THAT(result_of("check_nccl_allreduce_ib_loopback 490", ""),
              HasSubstr("NCCL's sum over 8 GPUs over InfiniBand at 481.8 GB/s, below 490 in 1 try; check_hw_ib"));
  answers["all_reduce_perf"] = "# Out of bounds values : 12 FAILED\n# Avg bus bandwidth    : 481.81\n";
  EXPECT_THAT(result_of("check_nccl_allreduce 460", ""), HasSubstr("NCCL's sum over 8 GPUs has wrong values; restart"));
  EXPECT_THAT(result_of("check_ib_bw_gdr 395", ""),
              HasSubstr("check_ib_bw_gdr: mlx5_ib0:1 writes 392.8 Gb/s to itself from GPU 0, below 395; check_hw_ib"));
}

TEST_F(Azure, WithoutNcclTestsThisProgramMeasuresTheSum) {
  node.machine.gpu_library = "libtrireme_cuda.so";
  std::string written = R"({"average_bus_bandwidth":{"bandwidth":451.5},"out_of_bounds":{"okay":true}})";
  ProcessResult ended{0, false, "", "", 0};
  node.machine.run = [&](const ProcessRequest& request) {
    if (request.arguments[0] != "env") return ProcessResult{127, false, "", "", 0};
    const std::string line = shell_join(request.arguments);
    EXPECT_THAT(line, AllOf(HasSubstr(" NCCL_TOPO_FILE="), HasSubstr(" launch --hosts localhost:8 --skip-preflight -- "
                                                                     "bench comm all_reduce -b 16G -e 16G -n 5 "
                                                                     "--device cuda -J ")));
    if (!written.empty()) write_text(request.arguments.back(), written);
    return ended;
  };
  const std::string line = "check_nccl_allreduce 450 1 16G /azure/topofiles/ndv5-topo.xml";
  EXPECT_EQ(node.run(line), "remark: NCCL's sum over 8 GPUs of the node at 451.5 GB/s");
  ended.exit_code = 3;  // slow for its hardware: the threshold of the file decides
  EXPECT_EQ(node.run(line), "remark: NCCL's sum over 8 GPUs of the node at 451.5 GB/s");
  written = R"({"average_bus_bandwidth":{"bandwidth":440},"out_of_bounds":{"okay":true}})";
  EXPECT_THAT(node.run(line), HasSubstr("NCCL's sum over 8 GPUs of the node at 440.0 GB/s, below 450 in 1 try"));
  written = R"({"average_bus_bandwidth":{"bandwidth":440},"out_of_bounds":{"okay":false}})";
  EXPECT_THAT(node.run(line), HasSubstr("NCCL's sum over 8 GPUs has wrong values"));
  ended = {2, false, "", "error: no mpirun\n", 0};
  written.clear();
  EXPECT_EQ(
      node.run(line),
      "remark: this node has no all_reduce_perf of nccl-tests, and trireme bench comm ended with code 2: error: no "
      "mpirun");
}

TEST_F(Azure, RepairsAreMadeByTheDriversLibrary) {
  EXPECT_EQ(result_of("check_gpu_persistence", "transient"), "n1 | Healthy\n");
  EXPECT_EQ(result_of("check_app_gpu_clocks", "slack"), "n1 | Healthy\n");
  EXPECT_THAT(result_of("check_gpu_persistence", "transient refuses"), HasSubstr("persistence mode is off"));
}

}  // namespace
}  // namespace trireme::health
