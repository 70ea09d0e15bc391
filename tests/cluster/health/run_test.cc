#include "cluster/health/run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "cluster/health/detached.h"
#include "cluster/health/generate.h"
#include "cluster/health/slurm_state.h"
#include "tests/cluster/health/fake_node.h"

namespace trireme::health {
namespace {

using testing::HasSubstr;

Plan plan_of(const std::string& text, const Settings& settings = {}) {
  return make_plan(parse_nhc_config(text), "n1", settings);
}

class Run : public testing::Test {
 protected:
  Run() {
    node.file("/sys/class/net/lo/mtu", "1\n");
    node.machine.run = run_process;
  }
  Report run(const std::string& text, bool all = false, double seconds = 20) {
    CheckOptions options;
    options.all = all;
    options.seconds = seconds;
    return run_plan(plan_of(text), node.machine, options);
  }
  FakeNode node;
};

TEST_F(Run, StopsAtTheFirstFailureUnlessAllAreAskedFor) {
  const std::string text = "* || check_hw_eth lo\n* || check_hw_eth a\n* || check_hw_eth b\nm || check_hw_eth c\n";
  const Report first = run(text);
  EXPECT_EQ(first.results.size(), 2u);
  EXPECT_EQ(exit_code(first, false), 1);
  EXPECT_EQ(one_line_per_node(first), "n1 | ERROR: nhc: Health check failed: check_hw_eth: no network interface a\n");
  const Report all = run(text, true);
  EXPECT_EQ(all.results.size(), 3u);
  EXPECT_EQ(exit_code(all, true), 2);
  const Report healthy = run("* || check_hw_eth lo\n");
  EXPECT_EQ(exit_code(healthy, true), 0);
  EXPECT_EQ(one_line_per_node(healthy), "n1 | Healthy\n");
}

TEST_F(Run, CommandsSeeTheVariablesAndTheirFailureIsReported) {
  EXPECT_TRUE(run("* || export WORD=value\n* || test \"$WORD\" = value\n").healthy());
  EXPECT_TRUE(run("* || export WORD=value\n* || check_cmd_output -m 'it is value' -e 'echo it is $WORD'\n").healthy())
      << "native checks start programs, too";
  const Report sought = run("* || export WORD=value PATH=/nowhere\n* || check_cmd_status ls\n");
  ASSERT_EQ(sought.results.size(), 1u);
  EXPECT_THAT(sought.results[0].outcome.text, HasSubstr("`ls` does not exist (code 127)"));
  const Report failed = run("* || echo broken >&2; exit 3\n");
  EXPECT_EQ(failed.results[0].outcome.text, "`echo broken >&2; exit 3` ended with code 3: broken");
}

TEST_F(Run, AHungCheckIsAFailureNotAHang) {
  const Report report = run("* || check_hw_eth lo\n* || sleep 60\n* || check_hw_eth a\n", true, 0.5);
  EXPECT_TRUE(report.timed_out);
  EXPECT_LT(report.seconds, 30);
  EXPECT_EQ(exit_code(report, true), 142);
  ASSERT_EQ(report.results.size(), 2u);
  EXPECT_EQ(report.results[1].outcome.text,
            "watchdog: Script timed out while executing \"sleep 60\" (line 2 did not end within 0.5 s of the run)");
}

TEST_F(Run, ACrashedCheckIsAFailure) {
  node.machine.processes = []() -> std::vector<ProcessEntry> { std::abort(); };
  const Report report = run("* || check_ps_daemon x\n");
  EXPECT_THAT(report.results[0].outcome.text, HasSubstr("crashed"));
}

TEST_F(Run, KnownChecksWithoutANativeFormAreNotCheckedAndCounted) {
  Report report = run("* || check_hw_gm a\n* || check_hw_eth lo\n* || check_hw_gm b\n");
  EXPECT_TRUE(report.healthy());
  EXPECT_EQ(report.checked(), 1u);
  EXPECT_EQ(one_line_per_node(report),
            "n1 | Healthy (2 of 3 not checked: check_hw_gm, check_hw_gm (not implemented in trireme))\n");
  require_all_checked(report);
  EXPECT_EQ(exit_code(report, false), 1);
  EXPECT_THAT(one_line_per_node(report), HasSubstr("--require-all: 2 of 3 not checked: check_hw_gm"));
}

TEST_F(Run, AHostToWhichNoLineAppliesIsNotHealthy) {
  Report report = run("m* || check_hw_eth lo\n");
  EXPECT_EQ(one_line_per_node(report), "n1 | Not checked: no line applies to this host\n");
  EXPECT_EQ(one_line_per_node(run("")), "n1 | Not checked: no line applies to this host\n");
  require_all_checked(report);
  EXPECT_EQ(one_line_per_node(report),
            "n1 | ERROR: nhc: Health check failed: --require-all: no line applies to this host\n");
}

TEST_F(Run, TheWatchdogEndsWhatAHungCheckStarted) {
  // Seconds that nobody else on this machine sleeps, another run of this test least of all.
  const auto seconds = [](int which) { return fmt::format("300.{}{}", getpid(), which); };
  const std::string spared = seconds(1), detached = seconds(2), hung = seconds(3);
  const auto running = [&](const std::string& word) {
    return !run_process({.arguments = {"pgrep", "-f", "^sleep " + word}, .input = "", .variables = {}, .user = ""})
                .out.empty();
  };
  const Report report = run(fmt::format("* || (setsid sleep {0} >/dev/null 2>&1 &); until pgrep -f '^sleep {0}' "
                                        ">/dev/null; do sleep 0.01; done\n"
                                        "* || (setsid sleep {1} >/dev/null 2>&1 &); sleep {2}\n",
                                        spared, detached, hung),
                            true, 1);
  EXPECT_TRUE(report.timed_out);
  EXPECT_FALSE(running(detached)) << "children that called setsid end, too";
  EXPECT_FALSE(running(hung));
  EXPECT_TRUE(running(spared)) << "what an earlier check left running on purpose is spared";
  run_process({.arguments = {"pkill", "-f", "^sleep " + spared}, .input = "", .variables = {}, .user = ""});
}

TEST_F(Run, GpuChecksAreSkippedOnACpuOnlyNodeOnly) {
  const std::string text = "* || check_gpu_ecc\n* || check_cuda_bw 23\n";
  const Report cpu = run(text, true);
  EXPECT_TRUE(cpu.healthy());
  EXPECT_EQ(cpu.results[0].outcome.kind, Outcome::Kind::skipped);
  EXPECT_EQ(cpu.results[0].outcome.text, "no GPU on this node");
  node.file("/sys/bus/pci/devices/0000:3b:00.0/vendor", "0x10de\n");
  node.file("/sys/bus/pci/devices/0000:3b:00.0/class", "0x030200\n");
  const Report gpu = run(text, true);
  EXPECT_EQ(gpu.failures().size(), 2u) << "its driver does not answer";
}

TEST_F(Run, ANodeWithoutAGpuHasNotTheGpusThatAreExpected) {
  node.machine.run = [](const ProcessRequest&) { return ProcessResult{127, false, "", "", 0}; };
  const Report report = run("* || check_gpu_count 8\n");
  EXPECT_EQ(report.results[0].outcome.kind, Outcome::Kind::fail);
  EXPECT_EQ(report.results[0].outcome.text, "check_gpu_count: no GPU on this node, expected 8");
  EXPECT_TRUE(run("* || check_gpu_count 0\n").healthy());
}

TEST_F(Run, ReportsSurviveJson) {
  const Report report = run("* || check_hw_eth a\n");
  const Report back = report_from_json(to_json(report), "x");
  EXPECT_EQ(one_line_per_node(back), one_line_per_node(report));
  EXPECT_THROW(report_from_json(Json::parse("{\"host\":1}"), "x"), Error);
}

TEST_F(Run, JsonDoesNotCallANodeHealthyOfWhichNothingWasChecked) {
  const Json none = to_json(run("m* || check_hw_eth lo\n"));
  EXPECT_TRUE(none.at("healthy").is_null());
  EXPECT_EQ(none.at("result"), "not checked");
  const Json unknown = to_json(run("* || check_hw_topology a.xml\n"));
  EXPECT_TRUE(unknown.at("healthy").is_null());
  EXPECT_EQ(to_json(run("* || check_hw_eth lo\n")).at("result"), "healthy");
  EXPECT_EQ(to_json(run("* || check_hw_eth lo\n")).at("healthy"), true);
  EXPECT_EQ(to_json(run("* || check_hw_eth a\n")).at("result"), "failed");
  EXPECT_EQ(to_json(run("* || check_hw_eth a\n")).at("healthy"), false);
}

TEST_F(Run, DetachedModeGivesTheLastResultOfThisBoot) {
  node.file("/state/x", "");
  const std::string path = node.machine.root + "/state/result.json";
  EXPECT_FALSE(last_report(path, "boot-1"));
  save_report(path, "boot-1", run("* || check_hw_eth a\n"));
  EXPECT_EQ(last_report(path, "boot-1")->failures().size(), 1u);
  EXPECT_FALSE(last_report(path, "boot-2")) << "a result from before the reboot says nothing";
  for (const char* text :
       {"junk", "", "[1]", "{\"boot_id\": 1}", "{\"boot_id\": \"boot-1\", \"report\": {\"host\": 1}}"}) {
    node.file("/state/result.json", text);
    EXPECT_FALSE(last_report(path, "boot-1")) << text << ": the next run writes a good one";
  }
}

TEST_F(Run, BackgroundRunsDoNotPileUp) {
  node.file("/state/x", "");
  const std::string path = node.machine.root + "/state/result.json", done = path + ".done";
  ASSERT_TRUE(run_in_background(path, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    std::ofstream(done) << "x";
  }));
  EXPECT_FALSE(run_in_background(path, [] {}));
  for (int i = 0; i < 500 && !std::filesystem::exists(done); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(std::filesystem::exists(done));
}

TEST_F(Run, AGeneratedFileIsPassedByItsNode) {
  node.file(
      "/proc/mounts",
      "proc /proc proc rw 0 0\n/dev/sda1 / ext4 rw 0 0\nshm /dev/shm tmpfs rw 0 0\n/dev/sdb /mnt/a\\040b ext4 rw 0 0\n"
      "tmpfs /dev/shm tmpfs ro 0 0\n");
  node.file("/proc/cpuinfo",
            "processor : 0\nphysical id : 0\ncore id : 0\nprocessor : 1\nphysical id : 0\ncore id : 0\n");
  node.file("/proc/meminfo", "MemTotal: 1000 kB\nSwapTotal: 0 kB\n");
  node.file("/proc/loadavg", "9.00 0.10 0.10 1/1 1\n");
  node.file("/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  node.file("/sys/class/infiniband/mlx5_0/ports/1/phys_state", "5: LinkUp\n");
  node.file("/sys/class/infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n");
  node.space = Space{1000, 500, 500, 100, 50};
  node.machine.host = "node07";
  const std::string text = generate_config({{"node07", describe_node(node.machine)}});
  EXPECT_THAT(text, HasSubstr("* || check_fs_mount_rw -t \"ext4\" -s \"/dev/sda1\" -f \"/\"\n"));
  EXPECT_THAT(text, HasSubstr("* || check_fs_mount_ro -t \"tmpfs\" -s \"tmpfs\" -f \"/dev/shm\"\n"))
      << "the last mount hides the one below it";
  EXPECT_THAT(text, HasSubstr("* || check_hw_cpuinfo 1 1 2\n"));
  EXPECT_THAT(text, HasSubstr("* || check_hw_ib 100 mlx5_0:1\n"));
  EXPECT_THAT(text, HasSubstr("* || check_hw_physmem 1000kB 1000kB 3%\n"));
  const Plan plan = make_plan(parse_nhc_config(text), "node12", {});
  for (const Step& step : plan.steps) {
    EXPECT_TRUE(step.applies);
    EXPECT_EQ(step.kind, StepKind::native) << step.text;
  }
  CheckOptions all;
  all.all = true;
  EXPECT_EQ(one_line_per_node(run_plan(plan, node.machine, all)), "node07 | Healthy\n");
}

TEST(Generate, CommonLinesAreForAllAndTheOthersForTheirNodes) {
  const std::string text = generate_config({{"n1", {{"A", "x"}, {"A", "y"}, {"B", "z"}}},
                                            {"n2", {{"A", "x"}, {"A", "w"}, {"B", "z"}}},
                                            {"n3", {{"A", "x"}, {"A", "w"}, {"B", "z"}}}});
  EXPECT_THAT(text, HasSubstr("3 live nodes"));
  EXPECT_THAT(text, HasSubstr("\n# A\n* || x\nn1 || y\n{n[2-3]} || w\n\n# B\n* || z\n"));
  const Plan plan = make_plan(parse_nhc_config(text), "n3", {});
  EXPECT_EQ(std::ranges::count(plan.steps, true, &Step::applies), 3);
}

TEST(SlurmState, DrainsASickNodeWithOurReason) {
  for (const char* state : {"idle", "mix", "alloc", "comp", "resv"}) {
    const SlurmAction action = decide(false, "no ib0\nx", state, "none");
    EXPECT_EQ(action.kind, SlurmAction::Kind::drain) << state;
    EXPECT_EQ(action.reason, "NHC: no ib0 x");
  }
  EXPECT_EQ(decide(false, "new", "drain", "NHC: old").kind, SlurmAction::Kind::drain)
      << "our own reason is brought up to date";
  EXPECT_EQ(decide(false, "old", "drain", "NHC: old").kind, SlurmAction::Kind::none);
}

TEST(SlurmState, NeverTouchesAHumansReason) {
  for (const char* state : {"drain", "drng", "drained*", "fail", "maint", "DRAINING"}) {
    for (const char* reason : {"bad DIMM, ticket 12", "none", "", "nhc: lower case", "see NHC: x"}) {
      EXPECT_EQ(decide(false, "p", state, reason).kind, SlurmAction::Kind::none) << state << reason;
      EXPECT_EQ(decide(true, "", state, reason).kind, SlurmAction::Kind::none) << state << reason;
    }
  }
}

TEST(SlurmState, LeavesDownAndRestartingNodesAlone) {
  EXPECT_EQ(decide(false, "p", "down", "none").kind, SlurmAction::Kind::none);
  for (const char* state : {"idle@", "drain@", "alloc#", "boot", "planned", "idle~", "reboot^"}) {
    EXPECT_EQ(decide(false, "p", state, "none").kind, SlurmAction::Kind::none) << state;
    EXPECT_EQ(decide(true, "", state, "NHC: x").kind, SlurmAction::Kind::none) << state;
  }
}

TEST(SlurmState, KnowsItsOwnReasons) {
  EXPECT_TRUE(is_own_reason("NHC: no ib0"));
  for (const char* reason : {"", "none", "broken NHC: x", "nhc: x"}) EXPECT_FALSE(is_own_reason(reason)) << reason;
}

TEST(SlurmState, ResumesOnlyWhatItDrained) {
  for (const char* state : {"drain", "drng", "down*", "fail", "maint"}) {
    EXPECT_EQ(decide(true, "", state, "NHC: x").kind, SlurmAction::Kind::resume) << state;
  }
  EXPECT_EQ(decide(true, "", "idle", "none").kind, SlurmAction::Kind::none);
}

TEST(SlurmState, AControllerThatDoesNotAnswerChangesNothingOfTheReport) {
  FakeNode node;
  Report sick{"n1", {{1, "check_hw_eth a", failed("no a")}}, false, 0, ""};
  mark_in_slurm(node.machine, {"n1", false}, sick);
  EXPECT_EQ(sick.slurm, "not marked: sinfo does not exist (code 127): ");
  EXPECT_TRUE(sick.slurm_failed);
  EXPECT_TRUE(report_from_json(to_json(sick), "test").slurm_failed);
  EXPECT_EQ(exit_code(sick, false), 1);
  Report well{"n1", {{1, "check_hw_eth a", passed()}}, false, 0, ""};
  mark_in_slurm(node.machine, {"n1", false}, well);
  EXPECT_EQ(exit_code(well, false), 0);
}

TEST(SlurmState, WhatWasNotCheckedNeitherDrainsNorResumes) {
  FakeNode node;
  Report report{"n1", {{1, "check_cuda_bw", not_checked("not implemented in trireme")}}, false, 0, ""};
  mark_in_slurm(node.machine, {"n1", false}, report);
  EXPECT_EQ(report.slurm, "not changed: nothing was checked");
  EXPECT_FALSE(report_from_json(to_json(report), "test").slurm_failed);
  EXPECT_TRUE(node.commands.empty());
}

TEST(SlurmState, ADryRunShowsItsActions) {
  FakeNode node;
  node.answer("sinfo -h -n n1 -o '%t|%E'", "idle|none\n");
  EXPECT_EQ(mark_in_slurm(node.machine, "n1", false, "no ib0", true), "would be drained: NHC: no ib0");
  node.answer("sinfo -h -n n1 -o '%t|%E'", "drain|NHC: no ib0\n");
  EXPECT_EQ(mark_in_slurm(node.machine, "n1", true, "", true), "would be resumed");
  EXPECT_EQ(node.commands.size(), 2u);
}

TEST(SlurmState, CallsScontrolWithTheReason) {
  FakeNode node;
  node.answer("sinfo -h -n n1 -o '%t|%E'", "idle|none\nidle|none\n");
  node.answer("scontrol update NodeName=n1 State=DRAIN 'Reason=NHC: no ib0'", "");
  EXPECT_EQ(mark_in_slurm(node.machine, "n1", false, "no ib0", false), "drained: NHC: no ib0");
  node.answer("sinfo -h -n n1 -o '%t|%E'", "drain|NHC: no ib0\n");
  node.answer("scontrol update NodeName=n1 State=RESUME", "");
  EXPECT_EQ(mark_in_slurm(node.machine, "n1", true, "", false), "resumed");
  node.answer("sinfo -h -n n1 -o '%t|%E'", "drain|bad fan\n");
  EXPECT_EQ(mark_in_slurm(node.machine, "n1", true, "", false),
            "not changed: the node is drain for another reason, which Trireme did not set: bad fan");
  node.answer("sinfo -h -n n1 -o '%t|%E'", "");
  EXPECT_THROW(mark_in_slurm(node.machine, "n1", true, "", false), Error);
}

}  // namespace
}  // namespace trireme::health
