#include "bench/comm/hardware.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/comm/run.h"
#include "cluster/launch/node_facts.h"

namespace trireme::comm_bench {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

HostLinks host(const char* name, std::vector<HostLinks::Port> ports) { return {name, std::move(ports)}; }

TEST(CommonLink, IsTheSlowestHostsRateOnTheSharedNetwork) {
  const std::vector<HostLinks> hosts = {host("a", {{"docker0", "172.17.0.0/16", 0}, {"eth0", "10.0.0.0/24", 25000}}),
                                        host("b", {{"eth1", "10.0.0.0/24", 10000}})};
  const Link link = common_link(hosts, "", false);
  EXPECT_EQ(link.name, "eth1");
  EXPECT_DOUBLE_EQ(link.rate, 1.25e9);
}

TEST(CommonLink, FollowsTheSettingsOfMpi) {
  const std::vector<HostLinks::Port> ports = {{"eth0", "10.0.0.0/24", 1000}, {"eth1", "10.1.0.0/24", 10000}};
  const std::vector<HostLinks> hosts = {host("a", ports), host("b", ports)};
  EXPECT_EQ(common_link(hosts, "eth1", true).name, "eth1");
  EXPECT_EQ(common_link(hosts, "10.1.0.0/24", true).name, "eth1");
  EXPECT_EQ(common_link(hosts, "", true).name, "eth0");
}

TEST(CommonLink, InfinibandCountsOnlyWhereEveryHostHasIt) {
  const HostLinks::Port ib{"mlx5_0:1", "", 200000}, slow{"mlx5_0:1", "", 100000}, eth{"eth0", "10.0.0.0/24", 1000};
  const std::vector<HostLinks> both = {host("a", {ib, eth}), host("b", {slow, eth})};
  EXPECT_EQ(common_link(both, "", false).name, "InfiniBand mlx5_0:1");
  EXPECT_DOUBLE_EQ(common_link(both, "", false).rate, 12.5e9);
  EXPECT_EQ(common_link(both, "", true).name, "eth0") << "MPI was told TCP";
  EXPECT_EQ(common_link({host("a", {ib, eth}), host("b", {eth})}, "", false).name, "eth0");
  EXPECT_EQ(common_link({host("a", {eth}), host("b", {})}, "", false).rate, 0);
}

TEST(CommonLink, IsThePortThatMpiUses) {
  const std::vector<HostLinks::Port> ports = {
      {"mlx5_0:1", "", 100000}, {"mlx5_1:1", "", 200000}, {"eth0", "10.0.0.0/24", 1000}};
  const std::vector<HostLinks> hosts = {host("a", ports), host("b", ports)};
  EXPECT_EQ(common_link(hosts, "mlx5_1:1", false).name, "InfiniBand mlx5_1:1");
  EXPECT_DOUBLE_EQ(common_link(hosts, "mlx5_1:1", false).rate, 25e9);
  EXPECT_EQ(common_link(hosts, "", false).name, "InfiniBand mlx5_0:1");
}

TEST(CommonLink, TravelsBetweenRanksAsText) {
  const HostLinks links = host("a", {{"mlx5_0:1", "", 200000}, {"eth0", "10.0.0.0/24", 1000}});
  EXPECT_EQ(to_json(host_links_from_json(to_json(links))), to_json(links));
}

TEST(Verdict, HoldsTheLargestSizeAgainstTheLink) {
  const auto said = [](double busbw) {
    Row small{8, 2, "float", "sum", -1, Timing{1, 100, 100, 0.0}, std::nullopt};
    Row large{1 << 20, 1 << 18, "float", "sum", -1, Timing{1, busbw, busbw, 0.0}, Timing{1, busbw / 2, busbw / 2, 0.0}};
    return verdict({"eth0", Link::Kind::tcp, 1.25e9, 1.2e9}, {small, large}, {"all_reduce", 1, true});
  };
  EXPECT_EQ(said(1.2), "1.2 of 1.25 GB/s at 1048576 bytes, 96 %: as expected");
  EXPECT_THAT(said(0.75), StartsWith("0.75 of 1.25 GB/s at 1048576 bytes, 60 %: below the link's rate; "));
  EXPECT_THAT(said(0.1), StartsWith("0.1 of 1.25 GB/s at 1048576 bytes, 8 %: poor; "));
  EXPECT_EQ(verdict({"eth0"}, {}, {}), "no data to judge");
}

TEST(Verdict, DistinguishesTheLinkFromTheLibraryAndNamesARemedy) {
  const Row row{1 << 24, 1 << 22, "float", "sum", -1, Timing{1, 0.04, 0.04, 0.0}, std::nullopt};
  const std::string library = verdict({"eth0", Link::Kind::tcp, 0.125e9, 0.118e9}, {row}, {"all_reduce", 1, true});
  EXPECT_THAT(
      library,
      HasSubstr("32 %: poor; the link is not the cause, it reaches 0.118 GB/s with plain messages, but the library's"));
  EXPECT_THAT(library, HasSubstr("coll_tuned_allreduce_algorithm=4"));
  EXPECT_THAT(verdict({"eth0", Link::Kind::tcp, 0.125e9, 0.118e9}, {row}, {"alltoall", 1, true}),
              Not(HasSubstr("try")));
  const std::string link = verdict({"eth0", Link::Kind::tcp, 0.125e9, 0.042e9}, {row}, {"all_reduce", 1, true});
  EXPECT_THAT(link,
              HasSubstr("poor; the link is slow: plain messages also reach only 0.042 GB/s; `bench comm pairs` finds"));
}

TEST(Verdict, FewBytesDoNotShowTheRateOfTheLink) {
  const Row row{4096, 1024, "float", "sum", -1, Timing{1, 0.01, 0.01, 0.0}, std::nullopt};
  EXPECT_EQ(verdict({"eth0", Link::Kind::tcp, 0.125e9, 0.1e9}, {row}, {"all_reduce", 1, true}),
            "0.01 GB/s at 4096 bytes, too small to judge the link (at least 1048576 bytes are needed)");
}

TEST(Verdict, CountsTheBytesThatTravel) {
  const Row row{1 << 24, 1 << 22, "float", "sum", -1, Timing{1, 0.02, 0.024, 0.0}, std::nullopt};
  EXPECT_EQ(verdict({"eth0", Link::Kind::tcp, 0.0125e9, 0.0125e9}, {row}, {"gradient", 0.5, true}),
            "0.012 of 0.0125 GB/s on the wire at 16777216 bytes, 96 %: as expected");
}

TEST(Transport, NamesWhatCarriesTheBytesInsideAndBetweenHosts) {
  EXPECT_EQ(transport({"shared memory of h1", Link::Kind::shared_memory, 0, 1}, 4), "shared memory");
  EXPECT_EQ(transport({"eth0", Link::Kind::tcp, 0, 1}, 1), "TCP over eth0 between hosts");
  EXPECT_EQ(transport({"InfiniBand mlx5_0:1", Link::Kind::infiniband, 0, 1, "UCX"}, 2),
            "shared memory inside a host, InfiniBand mlx5_0:1 through UCX between hosts");
  EXPECT_EQ(transport({"eth0", Link::Kind::tcp, 0, 1, "OFI"}, 1), "TCP over eth0 through OFI between hosts");
}

TEST(Transport, KnowsWhatTheLibrarySendsThroughByWhatIsLoaded) {
  const auto line = [](const char* library) {
    return fmt::format("7f00-7f01 r-xp 00000000 fe:00 123   /usr/lib/x86_64-linux-gnu/{}\n", library);
  };
  EXPECT_EQ(carrier_of(line("openmpi3/mca_pml_ob1.so") + line("openmpi3/mca_btl_tcp.so"), ""), "");
  EXPECT_EQ(carrier_of(line("libc.so.6") + line("libucp.so.0.0.0"), ""), "UCX");
  EXPECT_EQ(carrier_of(line("libmpi.so.40") + line("libucp.so.0.0.0"), "ucx"), "UCX");
  EXPECT_EQ(carrier_of(line("libmpi.so.40") + line("libucp.so.0.0.0") + line("libfabric.so.1.20.0"), "ob1"), "");
  EXPECT_EQ(carrier_of(line("libucp.so.0.0.0") + line("openmpi3/mca_btl_openib.so"), "ob1"), "openib");
  EXPECT_EQ(carrier_of(line("openmpi3/mca_pml_cm.so") + line("libfabric.so.1.20.0"), ""), "OFI");
  EXPECT_EQ(carrier_of(line("openmpi3/mca_btl_openib.so"), ""), "openib");
}

TEST(Pairs, EveryTwoHostsMeetOnceAndNobodyTwiceInARound) {
  for (int hosts : {2, 3, 6, 7}) {
    std::set<std::pair<int, int>> met;
    for (const std::vector<int>& partner : rounds_of(hosts)) {
      for (int a = 0; a < hosts; ++a) {
        const int b = partner[static_cast<size_t>(a)];
        if (b < 0) continue;
        EXPECT_EQ(partner[static_cast<size_t>(b)], a);
        if (a > b) continue;
        EXPECT_TRUE(met.emplace(a, b).second);
      }
    }
    EXPECT_EQ(met.size(), static_cast<size_t>(hosts * (hosts - 1) / 2)) << hosts;
  }
}

TEST(Pairs, ASlowHostIsNamedWithItsDirection) {
  const PairRates sends{{"h1", "h2", "h3"}, {0, 1e8, 1e8, 1e7, 0, 1.2e7, 1e8, 1e8, 0}};
  EXPECT_THAT(find_slow(sends),
              testing::ElementsAre("h2 sends slowly: 0.01 to 0.012 GB/s; the median of all pairs is 0.1"));
  const PairRates receives{{"h1", "h2", "h3"}, {0, 1e7, 1e8, 1e8, 0, 1e8, 1e8, 1e7, 0}};
  EXPECT_THAT(find_slow(receives), testing::ElementsAre(StartsWith("h2 receives slowly: ")));
  const PairRates one{{"h1", "h2", "h3"}, {0, 1e8, 1e8, 1e8, 0, 1e7, 1e8, 1e8, 0}};
  EXPECT_THAT(find_slow(one), testing::ElementsAre("h2 -> h3 is slow: 0.01 GB/s; the median of all pairs is 0.1"));
  EXPECT_TRUE(find_slow({{"h1", "h2"}, {0, 1e8, 0.9e8, 0}}).empty());
  EXPECT_THAT(find_slow({{"h1", "h2"}, {0, 1e8, 1e7, 0}}), testing::ElementsAre(StartsWith("h2 -> h1 is slow")));
}

/// A tree of /sys and /dev with one port that is up.
class InfinibandTree : public testing::Test {
 protected:
  InfinibandTree() {
    root_ = testing::TempDir() + "infiniband_" + std::to_string(getpid());
    const std::string port = "/sys/class/infiniband/mlx5_0/ports/1/";
    file(port + "state", "4: ACTIVE\n");
    file(port + "rate", "200 Gb/sec (4X HDR)\n");
    file(port + "link_layer", "InfiniBand\n");
    file(port + "lid", "0x1a\n");
    file("/sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
    file("/dev/infiniband/uverbs0", "");
  }
  ~InfinibandTree() override { std::filesystem::remove_all(root_); }
  void file(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  launch::InfinibandPort port() const { return launch::active_infiniband_ports(root_).at(0); }
  std::string root_;
};

TEST_F(InfinibandTree, APortThatCanBeUsedIs) {
  EXPECT_EQ(port().name, "mlx5_0:1");
  EXPECT_EQ(port().megabit, 200000);
  EXPECT_EQ(port().unusable, "");
}

TEST_F(InfinibandTree, IsTheLinkBetweenHostsOnlyWhileItCanBeUsed) {
  const auto said = [&] {
    HostLinks links = links_of_this_host("h1", root_);
    std::erase_if(links.ports,
                  [](const HostLinks::Port& p) { return !p.network.empty(); });  // of the machine that tests
    links.ports.push_back({"eth0", "10.0.0.0/24", 1000});
    HostLinks other = links;
    other.host = "h2";
    return transport(common_link({links, other}, "", false), 1);
  };
  EXPECT_EQ(said(), "InfiniBand mlx5_0:1 between hosts");
  file("/sys/class/infiniband/mlx5_0/ports/1/lid", "0x0\n");
  EXPECT_EQ(said(), "TCP over eth0 between hosts");
  file("/sys/class/infiniband/mlx5_0/ports/1/lid", "0x1a\n");
  file("/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
  EXPECT_EQ(said(), "TCP over eth0 between hosts");
}

TEST_F(InfinibandTree, APortWithoutAnAddressIsNot) {
  file("/sys/class/infiniband/mlx5_0/ports/1/lid", "0x0\n");
  EXPECT_EQ(port().unusable, "it got no address from the subnet manager (LID 0)");
  file("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n");
  EXPECT_EQ(port().unusable, "") << "RoCE has no LID";
}

TEST_F(InfinibandTree, APortWhoseDeviceCannotBeOpenedIsNot) {
  std::filesystem::remove(root_ + "/dev/infiniband/uverbs0");
  EXPECT_EQ(port().unusable, "cannot open /dev/infiniband/uverbs0: No such file or directory");
  std::filesystem::remove_all(root_ + "/sys/class/infiniband_verbs");
  EXPECT_EQ(port().unusable, "it has no verbs device (is ib_uverbs loaded?)");
}

TEST(Buffers, ShrinkToWhatTheFullestHostHas) {
  EXPECT_EQ(fitting_bytes(1 << 20, 1 << 30, 2), 1 << 20);
  EXPECT_EQ(fitting_bytes(1 << 30, 1 << 30, 2), 1 << 27);
}

}  // namespace
}  // namespace trireme::comm_bench
