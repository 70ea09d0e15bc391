#include "cluster/bench/hardware.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cluster/bench/run.h"

namespace trireme::comm_bench {
namespace {

HostLinks host(const char* name, std::vector<HostLinks::Port> ports) { return {name, std::move(ports)}; }

TEST(CommonLink, IsTheSlowestHostsRateOnTheSharedNetwork) {
  const std::vector<HostLinks> hosts = {host("a", {{"docker0", "172.17.0.0/16", 0}, {"eth0", "10.0.0.0/24", 25000}}),
                                        host("b", {{"eth1", "10.0.0.0/24", 10000}})};
  const Link link = common_link(hosts, "", false);
  EXPECT_EQ(link.name, "eth1");
  EXPECT_DOUBLE_EQ(link.rate, 1.25e9);
}

TEST(CommonLink, FollowsWhatMpiWasTold) {
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

TEST(CommonLink, TravelsBetweenRanksAsText) {
  const HostLinks links = host("a", {{"mlx5_0:1", "", 200000}, {"eth0", "10.0.0.0/24", 1000}});
  EXPECT_EQ(to_json(host_links_from_json(to_json(links))), to_json(links));
}

TEST(Verdict, HoldsTheLargestSizeAgainstTheLink) {
  const auto said = [](double busbw) {
    Row small{8, 2, "float", "sum", -1, Timing{1, 100, 100, 0.0}, std::nullopt};
    Row large{64, 16, "float", "sum", -1, Timing{1, busbw, busbw, 0.0}, Timing{1, busbw / 2, busbw / 2, 0.0}};
    return verdict({"eth0", 1.25e9, 0.5e9}, {small, large});
  };
  EXPECT_EQ(said(1.2), "1.20 of 1.25 GB/s at 64 bytes, 96 %: as expected");
  EXPECT_EQ(said(0.75), "0.75 of 1.25 GB/s at 64 bytes, 60 %: below what the link gives");
  EXPECT_EQ(said(0.1), "0.10 of 1.25 GB/s at 64 bytes, 8 %: poor");
  EXPECT_EQ(verdict({"eth0", 0, 0}, {}), "nothing to judge");
}

TEST(Buffers, ShrinkToWhatTheFullestHostHas) {
  EXPECT_EQ(fitting_bytes(1 << 20, 1 << 30, 2), 1 << 20);
  EXPECT_EQ(fitting_bytes(1 << 30, 1 << 30, 2), 1 << 27);
}

}  // namespace
}  // namespace trireme::comm_bench
