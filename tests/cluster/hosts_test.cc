#include "cluster/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/time.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class F>
std::string reason(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::config);
    return e.what();
  }
  return "no error";
}

std::vector<std::string> text(const std::vector<Host>& hosts) {
  std::vector<std::string> out;
  for (const Host& host : hosts) out.push_back(host.name + ":" + std::to_string(host.slots));
  return out;
}

std::vector<std::string> text(const std::vector<Placement>& placement) {
  std::vector<std::string> out;
  for (const Placement& entry : placement) out.push_back(entry.host + ":" + std::to_string(entry.processes));
  return out;
}

const std::vector<Host> kHosts = {{"n1", 4, 0, "f:1", ""}, {"n2", 2, 0, "f:2", ""}, {"n3", 0, 0, "f:3", ""}};

TEST(HostArgument, TakesNamesSlotsAndHostLists) {
  EXPECT_THAT(text(parse_host_argument("a,b:2,n[1-3]:4,root@c")),
              ElementsAre("a:0", "b:2", "n1:4", "n2:4", "n3:4", "root@c:0"));
  EXPECT_THAT(text(parse_host_argument("[fd00::1]:2,[fd00::2]")), ElementsAre("fd00::1:2", "fd00::2:0"));
  EXPECT_THAT(text(parse_host_argument("fe80::1%eth0,root@::1")), ElementsAre("fe80::1%eth0:0", "root@::1:0"));
}

TEST(HostArgument, RefusesBadCountsDuplicatesAndNothing) {
  EXPECT_EQ(reason([] { parse_host_argument("a:0"); }),
            "--hosts: expected host or host:slots with at least 1 slot, found \"a:0\"");
  EXPECT_THAT(reason([] { parse_host_argument("a:x"); }), HasSubstr("found \"a:x\""));
  EXPECT_THAT(reason([] { parse_host_argument("[fd00::1]:"); }), HasSubstr("expected [address]:slots"));
  EXPECT_EQ(reason([] { parse_host_argument("a,-oProxyCommand=x"); }),
            "--hosts: \"-oProxyCommand=x\" is not a host name; expected host, host:N, or host slots=N [max_slots=M]");
  EXPECT_THAT(reason([] { parse_host_argument("a;b"); }), HasSubstr("\"a;b\" is not a host name"));
  EXPECT_THAT(reason([] { parse_host_argument("a:2:3"); }),
              HasSubstr("\"a:2:3\" has more than one \":\" but is not an IPv6 address"));
  EXPECT_THAT(reason([] { parse_host_argument("a,b,a"); }), HasSubstr("host \"a\" is listed again"));
  EXPECT_THAT(reason([] { parse_host_argument(" , "); }), HasSubstr("no host in"));
}

TEST(HostName, IsNothingThatSshOrMpirunReadAsAnOptionOrAFile) {
  for (const char* wrong : {"",         "-oProxyCommand=x",
                            "-h",       "a@-oProxyCommand",
                            "a@-h",     "@file",
                            "@",        "a@",
                            "@-x",      "a@b@c",
                            "a@@b",     "-a@b",
                            "a@.",      ".",
                            "..",       "%eth0",
                            "a@%eth0",  "a b",
                            "a\nb",     "a=b",
                            "a/b",      "a;b",
                            "$(x)",     "`x`",
                            "a'b",      "a\"b",
                            "a\\b",     "a*",
                            "a?",       "~a",
                            "#a",       "a@ b",
                            "\xC3\xA4", "a:b:c@d:e",
                            "+a",       "^a",
                            ",a"}) {
    EXPECT_THROW(require_host_name(wrong, "here"), Error) << wrong;
  }
  EXPECT_THROW(require_host_name(std::string("a\0b", 3), "here"), Error);
  for (const char* name : {"a", "h1", "node-7.example.net", "node_7", "_x", "10.0.0.1", "::1", "fe80::1%eth0",
                           "root@h1", "first.last@h-1", "user-1@10.0.0.1", "root@::1", "h1.", "1", "A-b"}) {
    EXPECT_NO_THROW(require_host_name(name, "here")) << name;
  }
}

TEST(HostFilter, AreQuickForManyHosts) {
  std::vector<Host> hosts;
  std::string half;
  for (int i = 0; i < 60'000; ++i) hosts.push_back({"node" + std::to_string(i), 2, 0, "f", ""});
  for (int i = 0; i < 60'000; i += 2) half += (half.empty() ? "node" : "@node") + std::to_string(i);
  const auto start = Clock::now();
  EXPECT_EQ(filter_hosts(hosts, half, "").size(), 30'000u);
  EXPECT_EQ(filter_hosts(hosts, "", half).size(), 30'000u);
  EXPECT_LT(seconds_since(start), 20) << "1,800,000,000 comparisons would take longer";
}

TEST(HostFilter, KeepsOrDropsHostsAndSlots) {
  EXPECT_THAT(text(filter_hosts(kHosts, "n3@n1", "")), ElementsAre("n1:4", "n3:0"));
  EXPECT_THAT(text(filter_hosts(kHosts, "n1:0,2@n2", "")), ElementsAre("n1:2", "n2:2"));
  EXPECT_THAT(text(filter_hosts(kHosts, "", "n2")), ElementsAre("n1:4", "n3:0"));
  EXPECT_THAT(text(filter_hosts(kHosts, "", "n1:1,2@n2:0,1")), ElementsAre("n1:2", "n3:0"));
  EXPECT_THAT(text(filter_hosts(kHosts, "", "n[2-3]")), ElementsAre("n1:4"));
}

TEST(HostFilter, NamesWhatDoesNotFit) {
  EXPECT_THAT(reason([] { filter_hosts(kHosts, "n1", "n2"); }), HasSubstr("keep one"));
  EXPECT_EQ(reason([] { filter_hosts(kHosts, "n11", ""); }),
            "--include: host \"n11\" is not among the 3 hosts; nearest is \"n1\"");
  EXPECT_EQ(reason([] { filter_hosts(kHosts, "n2:2", ""); }),
            "--include: host \"n2\" has no slot 2; it has slots 0 to 1 (f:2)");
  EXPECT_THAT(reason([] { filter_hosts(kHosts, "n2:a", ""); }), HasSubstr("slot \"a\" of host \"n2\""));
  EXPECT_THAT(reason([] { filter_hosts(kHosts, "n2:", ""); }), HasSubstr("the slots after"));
  EXPECT_EQ(reason([] { filter_hosts(kHosts, "", "n[1-3]"); }), "--exclude: no host is left");
}

TEST(Place, FillsHostsInOrder) {
  EXPECT_THAT(text(place(kHosts, {})), ElementsAre("n1:4", "n2:2", "n3:1"));
  EXPECT_THAT(text(place(kHosts, {5, 0})), ElementsAre("n1:4", "n2:1"));
  EXPECT_THAT(text(place(kHosts, {0, 2})), ElementsAre("n1:2", "n2:2", "n3:2"));
  EXPECT_THAT(text(place(kHosts, {3, 1})), ElementsAre("n1:1", "n2:1", "n3:1"));
  EXPECT_EQ(total_processes(place(kHosts, {})), 7);
}

TEST(Place, GivesHostsWithoutSlotsARankForEachGpu) {
  const std::vector<Host> bare = {{"a", 0, 0, "--hosts", ""}, {"b", 0, 0, "--hosts", ""}};
  EXPECT_THAT(text(place(bare, {.gpus = 8})), ElementsAre("a:8", "b:8"));
  EXPECT_THAT(text(place(bare, {.processes = 10, .gpus = 8})), ElementsAre("a:8", "b:2"));
  EXPECT_THAT(text(place(bare, {.per_host = 2, .gpus = 8})), ElementsAre("a:2", "b:2"));
  EXPECT_THAT(text(place(kHosts, {.processes = 5, .gpus = 8})), ElementsAre("n1:4", "n2:1"));
  EXPECT_EQ(reason([] { place(kHosts, {.gpus = 3}); }),
            "--gpus-per-node 3: host \"n2\" has 2 slots (f:2); lower --gpus-per-node, set --ppn or raise its slots");
}

TEST(OfferSockets, GivesARankPerSocketWhereNobodySaysHowMany) {
  const std::vector<Host> told = {{"a", 0, 0, "f:1", ""}, {"b", 3, 0, "f:2", ""}, {"c", 0, 1, "f:3", ""}};
  const std::vector<int> sockets = {2, 4, 4};
  std::vector<Host> hosts = told;
  EXPECT_TRUE(offer_ranks(hosts, sockets, {}));
  EXPECT_THAT(text(place(hosts, {})), ElementsAre("a:2", "b:3", "c:1"));
  for (const PlacementRequest& request : {PlacementRequest{3, 0}, PlacementRequest{0, 1}}) {
    hosts = told;
    EXPECT_FALSE(offer_ranks(hosts, sockets, request));
    EXPECT_EQ(hosts[0].slots, 0);
  }
  EXPECT_FALSE(offer_ranks(hosts, std::vector<int>{1, 2, 0}, {}));
}

TEST(Place, RefusesMoreThanTheHostsHold) {
  EXPECT_EQ(reason([] {
              place(kHosts, {8, 0});
            }),
            "--np 8: at most 7 processes on 3 hosts; add hosts, raise their slots or set --ppn");
  EXPECT_EQ(reason([] {
              place(kHosts, {0, 3});
            }),
            "--ppn 3: host \"n2\" has 2 slots (f:2); lower --ppn or raise its slots");
  const std::vector<Host> bounded = {{"a", 0, 2, "f:1", ""}};
  EXPECT_THAT(text(place(bounded, {})), ElementsAre("a:1"));
  EXPECT_THAT(text(place(bounded, {2, 0})), ElementsAre("a:2"));
  EXPECT_THAT(reason([&] { place(bounded, {3, 0}); }), HasSubstr("at most 2 processes on 1 host"));
  EXPECT_THAT(reason([&] { place(bounded, {0, 3}); }), HasSubstr("has 2 slots"));
}

TEST(HostKey, IsOneForEverySpellingOfAHost) {
  const std::pair<const char*, const char*> same[] = {{"DGX-01", "dgx-01"},
                                                      {"n1.Example.Net", "n1.example.net"},
                                                      {"n1.example.net.", "n1.example.net"},
                                                      {"alice@n1", "n1"},
                                                      {"alice@N1", "bob@n1"},
                                                      {"fd88::1", "FD88:0:0:0:0:0:0:1"},
                                                      {"fe80::1%eth0", "FE80:0::1%eth0"}};
  for (const auto& [one, other] : same) EXPECT_EQ(host_key(one), host_key(other)) << one;
  const std::pair<const char*, const char*> different[] = {{"n1.a", "n1.b"},       {"n1", "n1.a"},
                                                           {"fd88::1", "fd88::2"}, {"fe80::1%eth0", "fe80::1%eth1"},
                                                           {"n-1", "n_1"},         {"10.0.0.1", "10.0.0.2"}};
  for (const auto& [one, other] : different) EXPECT_NE(host_key(one), host_key(other)) << one;
}

TEST(HostKey, OneHostUnderTwoSpellingsIsListedTwice) {
  EXPECT_EQ(
      reason([] { parse_host_argument("DGX-01:8,dgx-01:8"); }),
      "--hosts: host \"dgx-01\" is listed again, first in --hosts as \"DGX-01\"; list it once with the sum of its "
      "slots");
  EXPECT_THAT(reason([] { parse_host_argument("fd88::1,fd88:0::1"); }), HasSubstr("listed again"));
  EXPECT_THAT(reason([] { parse_host_argument("a@h,b@h"); }), HasSubstr("listed again"));
  EXPECT_EQ(reason([] { parse_host_argument("n1.a,n1.b"); }), "no error");
}

TEST(HostFilter, KnowsAHostInAnyCase) {
  EXPECT_THAT(text(filter_hosts(kHosts, "N3@N1", "")), ElementsAre("n1:4", "n3:0"));
  EXPECT_THAT(text(filter_hosts(kHosts, "", "N2")), ElementsAre("n1:4", "n3:0"));
}

}  // namespace
}  // namespace trireme
