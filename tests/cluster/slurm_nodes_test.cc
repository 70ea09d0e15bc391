#include "cluster/slurm_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "base/file.h"
#include "cluster/hostlist.h"
#include "tests/support/test_data.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names(const std::vector<Host>& hosts) {
  std::vector<std::string> out;
  for (const Host& host : hosts) out.push_back(host.name);
  return out;
}

template <class F>
std::string reason(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

SlurmNodes read(const char* name, std::string_view partition = "") {
  return parse_sinfo(read_text(test_data_dir() / "parsers/slurm" / name), name, partition);
}

TEST(NodeState, SaysWhyANodeCannotBeUsed) {
  for (const char* usable : {"idle", "ALLOCATED", "mix", "mixed-", "comp", "resv", "plnd", "idle+cloud"}) {
    EXPECT_EQ(unusable_reason(usable, "x"), "") << usable;
  }
  const std::map<std::string, std::string> unusable = {{"down", "down"},
                                                       {"down*", "down"},
                                                       {"drain", "drained"},
                                                       {"drng", "draining"},
                                                       {"idle*", "not responding"},
                                                       {"idle~", "powered off"},
                                                       {"alloc#", "powering up"},
                                                       {"idle%", "powering down"},
                                                       {"idle!", "about to power down"},
                                                       {"maint", "in maintenance"},
                                                       {"idle$", "in maintenance"},
                                                       {"mix@", "waiting for a reboot"},
                                                       {"idle^", "rebooting"},
                                                       {"IDLE+DRAIN", "drained"},
                                                       {"idle+not_responding", "not responding"},
                                                       {"fail", "failing"},
                                                       {"unk", "unknown to Slurm"},
                                                       {"inval", "registered with a wrong configuration"}};
  for (const auto& [state, why] : unusable) EXPECT_EQ(unusable_reason(state, "x"), why) << state;
  EXPECT_EQ(reason([] { unusable_reason("happy", "f:3"); }), "f:3: \"happy\" is not a node state of sinfo");
}

TEST(Sinfo, ReadsTheDefaultTableAndSkipsDrainedNodes) {
  const SlurmNodes nodes = parse_sinfo(
      "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"
      "hpc*         up   infinite      2   idle hpc-[1,3]\n"
      "hpc*         up   infinite      1 drain* hpc-2\n"
      "hpc*         up   infinite      1  idle~ hpc-4\n"
      "htc          up   infinite      1    mix htc-1\n",
      "sinfo", "hpc");
  EXPECT_THAT(names(nodes.usable), ElementsAre("hpc-1", "hpc-3"));
  EXPECT_THAT(names(nodes.skipped), ElementsAre("hpc-2", "hpc-4"));
  EXPECT_EQ(nodes.skipped[0].state, "drain* (drained)");
  EXPECT_EQ(nodes.skipped[0].origin, "sinfo:3");
}

TEST(Sinfo, ANodeInSeveralRowsIsUsableOnlyWhenEveryRowSaysSo) {
  const SlurmNodes nodes = parse_sinfo("b003 x idle\nb003 x down\nb004 x idle\nb004 x idle\n", "s", "");
  EXPECT_THAT(names(nodes.usable), ElementsAre("b004"));
  EXPECT_THAT(names(nodes.skipped), ElementsAre("b003"));
}

TEST(Sinfo, ReadsRealOutputs) {
  TRIREME_NEEDS_TEST_DATA("parsers/slurm");
  EXPECT_THAT(names(read("sinfo_simple.txt").usable), ElementsAre("compute000000", "compute000003"));

  const SlurmNodes csv = read("sinfo_nodes_state.csv");
  EXPECT_EQ(csv.usable.size(), 319u + 250u + 44u);  // idle, allocated, mixed
  EXPECT_EQ(csv.skipped.size(), 96u);

  const SlurmNodes memory = read("sinfo_mem.txt");
  EXPECT_THAT(names(memory.usable), ElementsAre("a048", "a049", "a050", "a051", "a052"));
  EXPECT_THAT(names(memory.skipped), ElementsAre("b001", "b002", "b003"));

  const SlurmNodes rows = read("sinfo_fallback.txt");
  EXPECT_THAT(names(rows.usable), ElementsAre("cs156", "cs25", "cs31", "cs53"));
  EXPECT_THAT(names(read("sinfo_fallback.txt", "cdn").usable), ElementsAre("cs25", "cs31"));

  const SlurmNodes json = read("sinfo_out.json");
  EXPECT_EQ(json.usable.size(), 3u);
  ASSERT_EQ(json.skipped.size(), 1u);
  EXPECT_THAT(json.skipped[0].state, HasSubstr("down"));
}

TEST(Sinfo, ReadsStateWordsOfLaterJson) {
  const SlurmNodes nodes = parse_sinfo(
      R"({"nodes":[{"name":"a","state":["IDLE","DRAIN"]},{"name":"b","state":["IDLE"],"partitions":["p"]}]})", "j", "");
  EXPECT_THAT(names(nodes.usable), ElementsAre("b"));
  EXPECT_EQ(nodes.skipped[0].state, "IDLE+DRAIN (drained)");
}

TEST(Sinfo, NamesTheLineThatItCannotRead) {
  const auto parse = [](const char* text) { return reason([&] { parse_sinfo(text, "s", ""); }); };
  EXPECT_THAT(parse("n1 idle\nn2 happy\n"), HasSubstr("s:2: expected the nodes first and their state last"));
  EXPECT_THAT(parse("idle\n"), HasSubstr("s:1: expected the nodes first"));
  EXPECT_THAT(parse("STATE NODELIST\nidle\n"), HasSubstr("s:2: found 1 column, fewer than in its header"));
  EXPECT_THAT(parse("STATE NODELIST\nidle n[1-\n"), HasSubstr("s:2: host list"));
  EXPECT_THAT(parse(""), HasSubstr("s: found no node; expected the output of sinfo"));
  EXPECT_THAT(parse("{\"n\":1}\n"), HasSubstr("s:1: expected an object with \"n\""));
  EXPECT_THAT(parse("{\"nodes\":[{\"name\":\"a\"}]}"), HasSubstr("a node without"));
  EXPECT_THAT(reason([] { parse_sinfo("PARTITION STATE NODELIST\np* idle n1\n", "s", "q"); }),
              HasSubstr("s: found no node in partition q; its partitions are p"));
  EXPECT_THAT(
      reason([] { parse_sinfo(R"({"nodes":[{"name":"a","state":["IDLE"],"partitions":["big","all"]}]})", "s", "q"); }),
      HasSubstr("its partitions are all, big"));
}

class SlurmJob : public testing::Test {
 protected:
  EnvironmentReader reader() {
    return [this](const char* name) { return variables_.contains(name) ? variables_[name].c_str() : nullptr; };
  }
  std::map<std::string, std::string> variables_;
};

TEST_F(SlurmJob, GivesNodesAndTasks) {
  variables_ = {{"SLURM_JOB_NODELIST", "n[1-3],m1"}, {"SLURM_TASKS_PER_NODE", "2(x3),1"}};
  const auto hosts = slurm_job_hosts(reader());
  EXPECT_THAT(names(hosts), ElementsAre("n1", "n2", "n3", "m1"));
  EXPECT_EQ(hosts[2].slots, 2);
  EXPECT_EQ(hosts[3].slots, 1);
  variables_ = {{"SLURM_NODELIST", "n1"}};
  EXPECT_EQ(slurm_job_hosts(reader())[0].slots, 0);
}

TEST_F(SlurmJob, RefusesWhatDoesNotFit) {
  const auto why = [this] { return reason([this] { slurm_job_hosts(reader()); }); };
  EXPECT_THAT(why(), HasSubstr("not in a Slurm job: SLURM_JOB_NODELIST is not set"));
  variables_ = {{"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}};
  EXPECT_THAT(why(), HasSubstr("but SLURM_JOB_NODELIST lists 3 nodes"));
  for (const char* bad : {"2(x", "x", "2(x0)", "0", "2(x3"}) {
    variables_["SLURM_TASKS_PER_NODE"] = bad;
    EXPECT_THAT(why(), HasSubstr("expected counts such as 2(x3),1")) << bad;
  }
}

TEST_F(SlurmJob, OfAHeterogeneousJobAllComponentsAreSeenAndOnlyOneIsUsed) {
  variables_ = {{"SLURM_HET_SIZE", "2"},
                {"SLURM_JOB_NODELIST", "n[1-2]"},
                {"SLURM_JOB_NODELIST_HET_GROUP_0", "n[1-2]"},
                {"SLURM_TASKS_PER_NODE_HET_GROUP_0", "2(x2)"},
                {"SLURM_JOB_NODELIST_HET_GROUP_1", "g1"},
                {"SLURM_TASKS_PER_NODE_HET_GROUP_1", "4"}};
  const auto hosts = slurm_job_hosts(reader());
  EXPECT_THAT(names(hosts), ElementsAre("n1", "n2", "g1"));
  EXPECT_EQ(hosts[2].slots, 4);
  EXPECT_EQ(reason([&] { require_first_component(reader(), hosts); }),
            "the Slurm job has 2 components, but ranks can start only in the first one (n[1-2]), not on g1; request "
            "all nodes in one component, or choose its hosts with --include n1@n2; nothing was started");
  EXPECT_EQ(reason([&] { require_first_component(reader(), {hosts[1]}); }), "no error");
  variables_["SLURM_HET_SIZE"] = "1";
  EXPECT_THAT(names(slurm_job_hosts(reader())), ElementsAre("n1", "n2"));
  EXPECT_EQ(reason([&] { require_first_component(reader(), hosts); }), "no error");
}

}  // namespace
}  // namespace trireme
