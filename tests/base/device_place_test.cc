// Where GPUs and networks are in machines that hwloc describes in XML, and the cores that ranks take there.

#include "base/device_place.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/machine_xml.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

struct Described {
  std::vector<DevicePlace> gpus;
  std::vector<CorePlan> ranks;
};

/// Places of the GPUs, and the cores of a rank for each of them on a machine that offers all of its cores.
Described describe(MachineXml machine, const std::vector<std::string>& buses, int cores, int threads = 1) {
  const TemporaryFolder folder;
  const std::string file = folder / "machine.xml";
  write_text(file, machine.xml());
  Described described;
  CoreRequest request;
  for (const std::string& bus : buses) {
    described.gpus.push_back(place_of_device(bus, file));
    request.near.push_back(described.gpus.back().cpus);
  }
  Cpus all(static_cast<size_t>(cores * threads));
  std::iota(all.begin(), all.end(), 0);
  std::vector<Cpus> physical;
  for (int core = 0; core < cores; ++core) {
    physical.emplace_back();
    for (int thread = 0; thread < threads; ++thread) physical.back().push_back(core + thread * cores);
  }
  request.offered.assign(buses.size(), all);
  for (size_t rank = 0; rank < buses.size(); ++rank) {
    request.local_rank = static_cast<int>(rank);
    described.ranks.push_back(plan_cores(physical, request));
  }
  return described;
}

std::string text_of(const DevicePlace& place) { return place.text() + ": " + format_cpu_list(place.cpus); }

TEST(DevicePlace, OfTheEightGpusOfAnNdA100V4) {
  // Its GPUs lie on NUMA nodes 1, 1, 0, 0, 3, 3, 2, 2, each with an InfiniBand device.
  MachineXml machine(2, 4, 96);
  const int nodes[] = {1, 1, 0, 0, 3, 3, 2, 2};
  std::vector<std::string> buses;
  for (int i = 0; i < 8; ++i) {
    buses.push_back(fmt::format("{:04x}:00:00.0", i + 1));
    machine.gpu(nodes[i], buses.back(), fmt::format("mlx5_ib{}", i));
  }
  const Described described = describe(machine, buses, 96);
  EXPECT_EQ(text_of(described.gpus[0]), "NUMA node 1, network mlx5_ib0: 24-47");
  EXPECT_EQ(text_of(described.gpus[7]), "NUMA node 2, network mlx5_ib7: 48-71");
  EXPECT_EQ(described.ranks[0].text, "cores 24-35, 12 threads");
  EXPECT_EQ(described.ranks[1].text, "cores 36-47, 12 threads");
  EXPECT_EQ(described.ranks[2].text, "cores 0-11, 12 threads");
  EXPECT_EQ(described.ranks[4].text, "cores 72-83, 12 threads");
  EXPECT_EQ(described.ranks[7].text, "cores 60-71, 12 threads");
}

TEST(DevicePlace, OfTheEightGpusOfADgxH100) {
  MachineXml machine(2, 2, 112, 2);
  const std::vector<std::string> buses{"0000:1b:00.0", "0000:43:00.0", "0000:52:00.0", "0000:61:00.0",
                                       "0000:9d:00.0", "0000:c3:00.0", "0000:d1:00.0", "0000:df:00.0"};
  for (size_t i = 0; i < buses.size(); ++i) machine.gpu(i < 4 ? 0 : 1, buses[i], fmt::format("mlx5_{}", i));
  const Described described = describe(machine, buses, 112, 2);
  EXPECT_EQ(text_of(described.gpus[3]), "NUMA node 0, network mlx5_3: 0-55,112-167");
  EXPECT_EQ(text_of(described.gpus[4]), "NUMA node 1, network mlx5_4: 56-111,168-223");
  EXPECT_EQ(described.ranks[3].text, "cores 42-55, 14 threads");
  EXPECT_EQ(described.ranks[3].cpus, parse_cpu_list("42-55,154-167"));
  EXPECT_EQ(described.ranks[4].text, "cores 56-69, 14 threads");
}

TEST(DevicePlace, OfFourA6000OnOneSocket) {
  MachineXml machine(1, 1, 64);
  const std::vector<std::string> buses{"0000:01:00.0", "0000:25:00.0", "0000:41:00.0", "0000:61:00.0"};
  for (const std::string& bus : buses) machine.gpu(0, bus, bus == buses[2] ? "eth0" : "", "2");
  const Described described = describe(machine, buses, 64);
  EXPECT_EQ(text_of(described.gpus[0]), "NUMA node 0, network eth0: 0-63");
  for (size_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(described.ranks[rank].text, fmt::format("cores {}-{}, 16 threads", 16 * rank, 16 * rank + 15));
}

TEST(DevicePlace, OfOneGpu) {
  MachineXml machine(1, 1, 8);
  machine.gpu(0, "0000:01:00.0");
  const Described described = describe(machine, {"0000:01:00.0"}, 8);
  EXPECT_EQ(text_of(described.gpus[0]), "NUMA node 0: 0-7");
  EXPECT_EQ(described.ranks[0].text, "cores 0-7, 8 threads");
  MachineXml two(2, 2, 8);
  two.gpu(1, "0000:01:00.0");
  EXPECT_EQ(describe(two, {"0000:01:00.0"}, 8).ranks[0].text, "cores 4-7, 4 threads") << "those of its node";
}

TEST(DevicePlace, OfUnknownDevicesIsUnknown) {
  MachineXml machine(2, 2, 8);
  machine.gpu(0, "0000:01:00.0");
  const TemporaryFolder folder;
  const std::string file = folder / "machine.xml";
  write_text(file, machine.xml());
  EXPECT_FALSE(place_of_device("00000000:01:00.0", file).cpus.empty()) << "the driver writes 8 digits";
  for (const char* bus : {"0000:02:00.0", "0", "", "0000:01:00.0 ", "gpu"}) {
    const DevicePlace place = place_of_device(bus, file);
    EXPECT_TRUE(place.cpus.empty()) << bus;
    EXPECT_EQ(place.text(), "") << bus;
  }
  EXPECT_NO_THROW(place_of_device("0000:02:00.0")) << "this machine can be read";
  EXPECT_ERROR(place_of_device("0000:01:00.0", folder / "none.xml"), ErrorKind::config, "hwloc cannot read ");
}

TEST(CorePlanNearGpus, KeepsWhatALauncherBound) {
  const std::vector<Cpus> cores{{0}, {1}, {2}, {3}};
  CoreRequest request;
  request.offered = {{0, 1}, {2, 3}};
  request.near = {{2, 3}, {0, 1}};
  EXPECT_EQ(plan_cores(cores, request).text, "cores 0-1, 2 threads") << "each rank has its own processors";
  request.offered = {{0, 1, 2, 3}, {0, 1, 2, 3}};
  EXPECT_EQ(plan_cores(cores, request).text, "cores 2-3, 2 threads");
  request.inherit = true;
  EXPECT_EQ(plan_cores(cores, request).cpus, (Cpus{0, 1, 2, 3}));
  request.inherit = false;
  request.offered = {{0, 1}, {0, 1}};
  EXPECT_EQ(plan_cores(cores, request).text, "core 0, 1 thread") << "the job has no core near the first GPU";
  request.offered = {{0, 1, 2, 3}, {0, 1, 2, 3}};
  request.near = {{0, 1, 2}, {2, 3}};
  EXPECT_EQ(plan_cores(cores, request).text, "cores 0-1, 2 threads") << "places that overlap in part do not count";
}

TEST(CorePlanNearGpus, RanksOfUnevenNodesComputeWithEqualThreads) {
  const std::vector<Cpus> cores{{0}, {1}, {2}, {3}, {4}, {5}};
  const Cpus all{0, 1, 2, 3, 4, 5};
  CoreRequest request;
  request.local_rank = 2;
  request.offered = {all, all, all};
  request.near = {{0, 1, 2}, {0, 1, 2}, {3, 4, 5}};
  const CorePlan third = plan_cores(cores, request);
  EXPECT_EQ(third.cpus, (Cpus{3, 4, 5}));
  EXPECT_EQ(third.threads, 1) << "two ranks share three cores of the other node";
}

}  // namespace
}  // namespace trireme
