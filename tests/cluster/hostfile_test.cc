#include "cluster/hostfile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/time.h"
#include "tests/support/test_data.h"

namespace trireme {
namespace {

using testing::HasSubstr;

std::string reason(std::string_view text) {
  try {
    parse_hostfile(text, "hosts");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::config);
    return e.what();
  }
  return "no error";
}

void expect_host(const Host& host, std::string_view name, int slots, int max_slots, std::string_view origin) {
  EXPECT_EQ(host.name, name);
  EXPECT_EQ(host.slots, slots) << name;
  EXPECT_EQ(host.max_slots, max_slots) << name;
  EXPECT_EQ(host.origin, origin) << name;
}

TEST(Hostfile, ReadsEveryStyleInOneFile) {
  const auto hosts = parse_hostfile(
      "\xEF\xBB\xBF# head\r\n\nn1\r\nn2:3  # Intel\n  n3 slots=4\nn4\tslots = 2 max_slots=8\nn5 max-slots=6\n"
      "[fd00::1]:2\nfd00::2\nroot@n6.cluster.local",
      "hosts");
  ASSERT_EQ(hosts.size(), 8u);
  expect_host(hosts[0], "n1", 0, 0, "hosts:3");
  expect_host(hosts[1], "n2", 3, 0, "hosts:4");
  expect_host(hosts[2], "n3", 4, 0, "hosts:5");
  expect_host(hosts[3], "n4", 2, 8, "hosts:6");
  expect_host(hosts[4], "n5", 0, 6, "hosts:7");
  expect_host(hosts[5], "fd00::1", 2, 0, "hosts:8");
  expect_host(hosts[6], "fd00::2", 0, 0, "hosts:9");
  expect_host(hosts[7], "root@n6.cluster.local", 0, 0, "hosts:10");
}

TEST(Hostfile, ReadsRealFiles) {
  TRIREME_NEEDS_TEST_DATA("parsers/hostfiles");
  const auto read = [](const char* name) { return read_hostfile(test_data_dir() / "parsers/hostfiles" / name); };
  const auto deepspeed = read("deepspeed_hostfile");
  ASSERT_EQ(deepspeed.size(), 4u);
  EXPECT_EQ(deepspeed[2].name, "node3");
  EXPECT_EQ(deepspeed[2].slots, 4);
  const auto openmpi = read("openmpi_hostfile_2nodes");
  ASSERT_EQ(openmpi.size(), 2u);
  EXPECT_EQ(openmpi[1].slots, 128);
  const auto plain = read("superbench_hostfile");
  ASSERT_EQ(plain.size(), 10u);
  EXPECT_EQ(plain[9].name, "vma414bbc00005R");
  EXPECT_THROW(read("superbench_mpi_pattern.txt"), Error);
}

TEST(Hostfile, NamesTheLineAndWhatIsWrong) {
  EXPECT_EQ(reason("n1\nn2 slots=2\n\nn1 slots=4\n"),
            "hosts:4: host \"n1\" is listed again, first in hosts:1; list it once with the sum of its slots");
  EXPECT_EQ(reason("n1\r\nn2 slots=\r\n"), "hosts:2: slots: expected a number from 1 to 1000000, found \"\"");
  EXPECT_EQ(reason("n2 slots=0"), "hosts:1: slots: expected a number from 1 to 1000000, found \"0\"");
  EXPECT_THAT(reason("n2 slots=-1"), HasSubstr("found \"-1\""));
  EXPECT_THAT(reason("n2 slots=4x"), HasSubstr("found \"4x\""));
  EXPECT_THAT(reason("n2:"), HasSubstr("hosts:1: n2:: expected a number"));
  EXPECT_THAT(reason("n2:99999999999"), HasSubstr("found \"99999999999\""));
  EXPECT_EQ(reason("n2 slot=4"), "hosts:1: unknown \"slot\"; expected slots or max_slots, nearest is \"slots\"");
  EXPECT_EQ(reason("n2 4"), "hosts:1: \"4\" after the host; expected slots=N or max_slots=M");
  EXPECT_EQ(reason("n2 slots=4 slots=2"), "hosts:1: slots of \"n2\" appear twice");
  EXPECT_EQ(reason("n2:4 slots=2"), "hosts:1: slots of \"n2\" appear twice");
  EXPECT_EQ(reason("n2 slots=4 max_slots=2"), "hosts:1: slots=4 is above max_slots=2");
  EXPECT_THAT(reason("n[1-"), HasSubstr("hosts:1"));
  EXPECT_EQ(reason("n1\nn2:2:3"),
            "hosts:2: \"n2:2:3\" has more than one \":\" but is not an IPv6 address; expected host:N or [address]:N");
  EXPECT_THAT(reason("-oProxyCommand=x"), HasSubstr("is not a host name"));
  EXPECT_THAT(reason("slots=4"), HasSubstr("is not a host name"));
  EXPECT_EQ(reason("# only\n\n"), "hosts: found no host in 2 lines; write one host per line");
  EXPECT_EQ(reason(""), "hosts: found no host in 0 lines; write one host per line");
}

TEST(Hostfile, TakesHostListExpressions) {
  const auto hosts = parse_hostfile("n[1-2]:3\nm[08-09,11] slots=2 max_slots=4\n", "hosts");
  ASSERT_EQ(hosts.size(), 5u);
  EXPECT_EQ(hosts[1].name, "n2");
  EXPECT_EQ(hosts[1].slots, 3);
  EXPECT_EQ(hosts[2].name, "m08");
  EXPECT_EQ(hosts[4].name, "m11");
  EXPECT_EQ(hosts[4].max_slots, 4);
  EXPECT_EQ(hosts[4].origin, "hosts:2");
}

TEST(Hostfile, RepeatedLinesAreSlotsInTheFilesOfSchedulers) {
  const auto hosts = parse_hostfile("n1\nn1\nn2\nn1\n", "pbs", Repeats::are_slots);
  ASSERT_EQ(hosts.size(), 2u);
  EXPECT_EQ(hosts[0].slots, 3);
  EXPECT_EQ(hosts[1].slots, 1);
}

TEST(Hostfile, AHundredThousandLinesAreQuick) {
  std::string text, repeated;
  for (int i = 0; i < 100'000; ++i) text += "node" + std::to_string(i) + " slots=2\n";
  for (int i = 0; i < 200'000; ++i) repeated += "node" + std::to_string(i % 100'000) + "\n";
  const auto start = Clock::now();
  EXPECT_EQ(parse_hostfile(text, "hosts").size(), 100'000u);
  const auto hosts = parse_hostfile(repeated, "pbs", Repeats::are_slots);
  EXPECT_EQ(hosts.size(), 100'000u);
  EXPECT_EQ(hosts.back().slots, 2);
  EXPECT_LT(seconds_since(start), 20) << "5,000,000,000 comparisons of names take minutes";
}

TEST(Hostfile, MissingFileIsAnErrorAndNeverThisHost) {
  try {
    read_hostfile("/nonexistent/hosts");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::config) << "as every other fault of a hostfile";
    EXPECT_THAT(e.what(), HasSubstr("hostfile /nonexistent/hosts does not exist; nothing was started"));
  }
}

TEST(Hostfile, WritesEveryFormAndReadsItBack) {
  const std::vector<Host> hosts = {{"n1", 2, 4, "", ""}, {"n2", 0, 0, "", ""}, {"n3", 1, 0, "", ""}};
  EXPECT_EQ(format_hostfile(hosts, hostfile_form("list")), "n1\nn2\nn3\n");
  EXPECT_EQ(format_hostfile(hosts, hostfile_form("intel")), "n1:2\nn2:1\nn3:1\n");
  EXPECT_EQ(format_hostfile(hosts, hostfile_form("openmpi")), "n1 slots=2 max_slots=4\nn2 slots=1\nn3 slots=1\n");
  EXPECT_EQ(format_hostfile(hosts, hostfile_form("deepspeed")), "n1 slots=2\nn2 slots=1\nn3 slots=1\n");
  EXPECT_EQ(format_hostfile(hosts, hostfile_form("slurm")), "n[1-3]\n");
  const std::vector<Host> v6 = {{"fd00::1", 2, 0, "", ""}};
  EXPECT_EQ(parse_hostfile(format_hostfile(v6, HostfileForm::intel), "x")[0].name, "fd00::1");
  EXPECT_THROW(hostfile_form("pdsh"), Error);
}

TEST(Hostfile, TakesOpenMpisOtherWords) {
  const auto hosts = parse_hostfile(
      "n1 cpu=4\nn2 count=2 max-count=3\nn3 slots=2 port=2222\nn4 user=ann\nn5 username=bob cpu_max=4", "hosts");
  ASSERT_EQ(hosts.size(), 5u);
  expect_host(hosts[0], "n1", 4, 0, "hosts:1");
  expect_host(hosts[1], "n2", 2, 3, "hosts:2");
  EXPECT_EQ(hosts[2].port, 2222);
  expect_host(hosts[3], "ann@n4", 0, 0, "hosts:4");
  expect_host(hosts[4], "bob@n5", 0, 4, "hosts:5");
  EXPECT_EQ(format_hostfile(std::vector<Host>{hosts[2]}, HostfileForm::open_mpi), "n3 slots=2 port=2222\n");
}

TEST(Hostfile, RefusesWhatOneHostCannotHaveWithWhatToGiveInstead) {
  EXPECT_EQ(reason("n1:2 ifname=eth1"),
            "hosts:1: ifname=eth1 cannot be set per host: all ranks use the same network; remove it and set "
            "--interface NAME or --interface 10.0.0.0/24");
  for (const char* word :
       {"binding=socket", "boards=1", "sockets=2", "cores=4", "cpu_set=0-3", "sockets-per-board=2"}) {
    EXPECT_THAT(reason(std::string("n1\nn2 slots=2 ") + word),
                HasSubstr("cannot be set per host: trireme itself spreads the ranks over the cores"))
        << word;
  }
  EXPECT_THAT(reason("n1 port=0"), HasSubstr("port: expected a number"));
  EXPECT_EQ(reason("n1 port=99999"), "hosts:1: port=99999 is above 65535");
  EXPECT_EQ(reason("ann@n1 user=bob"), "hosts:1: \"ann@n1\" already has a user, found also user=bob");
  EXPECT_THAT(reason("n1 user=-x"), HasSubstr("is not a host name"));
}

TEST(Hostfile, HostsInOtherCaseAreOne) {
  EXPECT_EQ(
      reason("DGX-01 slots=8\ndgx-01 slots=8\n"),
      "hosts:2: host \"dgx-01\" is listed again, first in hosts:1 as \"DGX-01\"; list it once with the sum of its "
      "slots");
  const auto hosts = parse_hostfile("n1\nN1\nn2\n", "pbs", Repeats::are_slots);
  ASSERT_EQ(hosts.size(), 2u);
  EXPECT_EQ(hosts[0].slots, 2);
}

}  // namespace
}  // namespace trireme
