#include "cluster/health/run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
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

TEST_F(Run, ANodeWithoutTheGpusThatItsFileAsksForFailsUnlessToldToSkipThem) {
  const std::string text = "* || check_gpu_ecc\n* || check_rccl_allreduce 1\n* || check_gpu_xid $((1-1))\n";
  const Report without = run(text, true);
  ASSERT_EQ(without.failures().size(), 3u);
  EXPECT_EQ(
      without.results[0].outcome.text,
      "check_gpu_ecc: no GPU on this node; if it has none by design, exclude it from the line, or use --skip-gpu");
  node.machine.skip_gpu = true;
  Report cpu = run(text, true);
  EXPECT_TRUE(cpu.healthy());
  EXPECT_EQ(cpu.results[0].outcome.kind, Outcome::Kind::skipped);
  EXPECT_EQ(cpu.results[0].outcome.text, "no GPU on this node");
  node.file("/sys/bus/pci/devices/0000:3b:00.0/vendor", "0x10de\n");
  node.file("/sys/bus/pci/devices/0000:3b:00.0/class", "0x030200\n");
  node.machine.run = [](const ProcessRequest&) { return ProcessResult{127, false, "", "", 0}; };
  const Report gpu = run("* || check_gpu_ecc\n* || check_cuda_bw 23\n", true);
  EXPECT_EQ(gpu.failures().size(), 2u) << "its driver does not answer";
}

TEST_F(Run, TextFromOutsideIsSafeOnATerminal) {
  const Report report =
      run("# " + std::string(1000, '-') +
              "\n* || echo $'\\\\e[31m\\\\e]0;x\\\\a\\\\x01' >&2; exit 3\n* \xFF\x01|| check_hw_eth '\x1b[2J'\n",
          true);
  for (const std::string& text : {one_line_per_node(report), report.results.back().check}) {
    EXPECT_EQ(text.find_first_of("\x1b\x01\a\xFF"), std::string::npos) << testing::PrintToString(text);
  }
  EXPECT_THAT(one_line_per_node(report), HasSubstr("\\x01"));
  const Report far = report_from_json(
      Json{{"host", "h\x1b[2J"}, {"timed_out", false}, {"seconds", 1}, {"results", Json::array()}}, "x");
  EXPECT_EQ(one_line_per_node(far), "h | Not checked: no line applies to this host\n");
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

Report report_of(std::vector<Result> results) { return {"n1", std::move(results), false, 0, ""}; }
Report sick(const std::string& text) { return report_of({{1, "check_x", failed("{}", text)}}); }
Report well() { return report_of({{1, "check_x", passed()}}); }

TEST(SlurmState, DrainsASickNodeWithOurReason) {
  for (const char* state : {"idle", "mix", "alloc", "comp", "resv", "planned", "plnd", "mix-", "idle*"}) {
    const SlurmAction action = decide(sick("check_x: no ib0\nx"), state, "none");
    EXPECT_EQ(action.kind, SlurmAction::Kind::drain) << state;
    EXPECT_EQ(action.reason, "NHC: check_x: no ib0 x");
    EXPECT_EQ(decide(well(), state, "none").why, "the node is in service") << state;
  }
  EXPECT_EQ(decide(sick("check_x: new"), "drain", "NHC: check_x: old").reason, "NHC: check_x: new")
      << "our own reason is brought up to date";
  EXPECT_EQ(decide(sick("check_x: old"), "drain", "NHC: check_x: old").kind, SlurmAction::Kind::none);
  EXPECT_EQ(decide(sick("no disk 3"), "idle", "none").reason, "NHC: check_x: no disk 3")
      << "a later run has to know which check it was";
}

TEST(SlurmState, NeverTouchesAHumansReason) {
  for (const char* state : {"drain", "drng", "drained*", "fail", "maint", "DRAINING", "drain$"}) {
    for (const char* reason : {"bad DIMM, ticket 12", "none", "", "nhc: lower case", "see NHC: x"}) {
      EXPECT_EQ(decide(sick("p"), state, reason).kind, SlurmAction::Kind::none) << state << reason;
      EXPECT_EQ(decide(well(), state, reason).kind, SlurmAction::Kind::none) << state << reason;
    }
  }
}

TEST(SlurmState, LeavesNodesAloneThatAreDownRestartingOrInMaintenance) {
  for (const char* state : {"down", "down*", "down$", "idle@", "drain@", "alloc#", "boot", "idle~", "reboot^", "maint",
                            "maint*", "idle$", "alloc$", "pow_dn", "futr"}) {
    for (const char* reason : {"none", "NHC: check_x: x"}) {
      EXPECT_EQ(decide(sick("p"), state, reason).kind, SlurmAction::Kind::none) << state;
      EXPECT_EQ(decide(well(), state, reason).kind, SlurmAction::Kind::none) << state;
    }
  }
  EXPECT_EQ(decide(sick("p"), "maint", "none").why, "the node is maint: it is in a maintenance reservation");
}

TEST(SlurmState, KnowsItsOwnReasons) {
  EXPECT_TRUE(is_own_reason("NHC: no ib0"));
  for (const char* reason : {"", "none", "broken NHC: x", "nhc: x"}) EXPECT_FALSE(is_own_reason(reason)) << reason;
}

struct Recheck {
  const char* reason;
  std::vector<Result> results;
  const char* why;  ///< a part of why it stays; nullptr: it is resumed
};

TEST(SlurmState, ANodeComesBackOnlyWhenTheVeryCheckThatDrainedItHasPassed) {
  const Outcome lost = not_checked("no tool");
  Outcome in_bash = passed();
  in_bash.called = {"check_gpu_ecc", "check_site"};
  const Recheck cases[] = {
      {"NHC: check_gpu_ecc: GPU 1: x", {{1, "check_gpu_ecc 2000", passed()}}, nullptr},
      {"NHC: check_gpu_ecc: x", {{1, "check_gpu_ecc", passed()}, {2, "check_nv_healthmon", lost}}, nullptr},
      {"NHC: check_gpu_ecc: x", {{1, "check_gpu_ecc", lost}, {2, "check_hw_eth lo", passed()}}, "was not checked: no "},
      {"NHC: check_gpu_ecc: x", {{1, "check_gpu_ecc", skipped("a")}, {2, "check_hw_eth lo", passed()}}, "not checked"},
      {"NHC: check_gpu_ecc: x", {{2, "check_hw_eth lo", passed()}}, "`check_gpu_ecc` did not run"},
      {"NHC: check_hw_eth: x", {{1, "check_hw_eth a", passed()}, {2, "check_hw_eth b", lost}}, "`check_hw_eth b` was"},
      {"NHC: check_gpu_ecc: x", {{1, "if true; then check_gpu_ecc; fi", in_bash}}, nullptr},
      {"NHC: check_site:  2 disks", {{1, "if true; then check_gpu_ecc; fi", in_bash}}, nullptr},
      {"NHC: check_gone: x", {{1, "if true; then check_gpu_ecc; fi", in_bash}}, "`check_gone` did not run"},
      {"NHC: `test -e /a` ended with code 1", {{1, "test -e /a", passed()}}, nullptr},
      {"NHC: `test -e /a` ended with code 1", {{1, "test -e /b", passed()}}, "did not run"},
      {"NHC: watchdog: Script timed out while executing \"sleep 9\" (line 2 did", {{1, "sleep 9", passed()}}, nullptr},
      {"NHC: Script timed out while executing \"check_fs_mount_rw -f /a\".",
       {{1, "check_fs_mount_rw -f /b", passed()}, {2, "check_hw_ib", lost}},
       nullptr},
      {"NHC: Check ls /a returned 2", {{1, "ls /a", passed()}, {2, "check_hw_ib", lost}}, nullptr},
      {"NHC: Check the fan", {{1, "check_x", passed()}}, nullptr},
      {"NHC: of my own", {{1, "die 1 of my own", passed()}, {2, "check_hw_ib", passed()}}, nullptr},
      {"NHC: of my own", {{1, "die 1 of my own", passed()}, {2, "check_hw_ib", lost}}, "`check_hw_ib` was not checked"},
  };
  for (const Recheck& one : cases) {
    for (const char* state : {"drain", "drng", "fail", "drain*", "drain$"}) {
      const SlurmAction action = decide(report_of(one.results), state, one.reason);
      if (one.why == nullptr) {
        EXPECT_EQ(action.kind, SlurmAction::Kind::resume) << one.reason << action.why;
      } else {
        EXPECT_EQ(action.kind, SlurmAction::Kind::none) << one.reason;
        EXPECT_THAT(action.why, testing::AllOf(HasSubstr(one.why), HasSubstr("NodeName=n1 State=RESUME")));
      }
    }
  }
}

TEST(SlurmState, AnotherFailureDoesNotReplaceAReasonWhoseCheckHasNotPassed) {
  const Result eth{1, "check_hw_eth a", failed("check_hw_eth: no a")};
  const auto act = [&](std::vector<Result> others) {
    others.push_back(eth);
    return decide(report_of(std::move(others)), "drain", "NHC: check_gpu_ecc: old");
  };
  EXPECT_EQ(act({{2, "check_gpu_ecc", passed()}}).reason, "NHC: check_hw_eth: no a");
  EXPECT_EQ(act({{2, "check_gpu_ecc", failed("check_gpu_ecc: new")}}).reason, "NHC: check_gpu_ecc: new");
  for (const auto& others : {std::vector<Result>{}, {{2, "check_gpu_ecc", not_checked("x")}}}) {
    const SlurmAction action = act(others);
    EXPECT_EQ(action.kind, SlurmAction::Kind::none);
    EXPECT_THAT(action.why, HasSubstr("keeps that reason, because `check_gpu_ecc`"));
  }
  EXPECT_THAT(decide(report_of({eth}), "drain", "NHC: of a site").why, HasSubstr("its reason names no check"));
}

TEST(SlurmState, AControllerThatDoesNotAnswerChangesNothingOfTheReport) {
  FakeNode node;
  Report broken = sick("no a");
  mark_in_slurm(node.machine, {"n1"}, broken);
  EXPECT_EQ(broken.slurm, "not marked: sinfo does not exist (code 127): ");
  EXPECT_TRUE(broken.slurm_failed);
  EXPECT_TRUE(report_from_json(to_json(broken), "test").slurm_failed);
  EXPECT_EQ(exit_code(broken, false), 1);
  Report good = well();
  mark_in_slurm(node.machine, {"n1"}, good);
  EXPECT_EQ(exit_code(good, false), 0);
}

TEST(SlurmState, WhatWasNotCheckedNeitherDrainsNorResumes) {
  FakeNode node;
  Report report{"n1", {{1, "check_cuda_bw", not_checked("not implemented in trireme")}}, false, 0, ""};
  mark_in_slurm(node.machine, {"n1"}, report);
  EXPECT_EQ(report.slurm, "not changed: nothing was checked");
  EXPECT_FALSE(report_from_json(to_json(report), "test").slurm_failed);
  EXPECT_TRUE(node.commands.empty());
}

class Marking : public testing::Test {
 protected:
  void is(const char* state) { node.answer("sinfo -h -n n1 -o '%t|%E'", state); }
  std::string mark(Report report, const MarkOptions& options) {
    mark_in_slurm(node.machine, options, report);
    return report.slurm;
  }
  FakeNode node;
};

TEST_F(Marking, ADryRunShowsItsActions) {
  is("idle|none\n");
  EXPECT_EQ(mark(sick("check_x: no ib0"), {"n1", true}), "would be drained: NHC: check_x: no ib0");
  is("drain|NHC: check_x: no ib0\n");
  EXPECT_EQ(mark(well(), {"n1", true}), "would be resumed");
  EXPECT_EQ(node.commands.size(), 2u);
}

TEST_F(Marking, CallsScontrolWithTheReason) {
  is("idle|none\nidle|none\n");
  node.answer("scontrol update NodeName=n1 State=DRAIN 'Reason=NHC: check_x: no ib0'", "");
  EXPECT_EQ(mark(sick("check_x: no ib0"), {"n1"}), "drained: NHC: check_x: no ib0");
  is("drain|NHC: check_x: no ib0\n");
  node.answer("scontrol update NodeName=n1 State=RESUME", "");
  EXPECT_EQ(mark(well(), {"n1"}), "resumed");
  is("drain|bad fan\n");
  EXPECT_EQ(mark(well(), {"n1"}),
            "not changed: the node is drain for another reason, which Trireme did not set: bad fan");
  is("");
  EXPECT_THAT(mark(well(), {"n1"}), HasSubstr("not marked: Slurm does not know the node \"n1\""));
}

TEST_F(Marking, RequireAllResumesOnlyWhatWasCheckedCompletely) {
  is("drain|NHC: check_x: old\n");
  node.answer("scontrol update NodeName=n1 State=RESUME", "");
  Report partly = report_of({{1, "check_x", passed()}, {2, "check_y", not_checked("no tool")}});
  EXPECT_EQ(mark(partly, {.node = "n1", .require_all = true}),
            "not changed: not everything was checked, which --require-all asks for");
  EXPECT_EQ(mark(partly, {"n1"}), "resumed");
}

}  // namespace
}  // namespace trireme::health
