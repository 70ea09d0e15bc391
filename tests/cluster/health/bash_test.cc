// Lines that bash runs, with what NHC promises them: its functions and variables, a site's own scripts, one shell for
// all.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "cluster/health/nhc_settings.h"
#include "cluster/health/run.h"
#include "tests/cluster/health/fake_node.h"

namespace trireme::health {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Bash : public testing::Test {
 protected:
  Bash() {
    node.file("/sys/class/net/lo/mtu", "1\n");
    node.file("/proc/cpuinfo",
              "processor : 0\nphysical id : 0\ncore id : 0\nprocessor : 1\nphysical id : 0\ncore id : 1\n");
    node.file("/proc/loadavg", "3.00 0.10 0.10 1/1 1\n");
    node.file("/nhc/none", "");
    node.machine.run = run_process;
  }

  std::string in_site(const std::string& name) const { return node.machine.root + "/nhc/" + name; }
  void script(const std::string& name, const std::string& text) { node.file("/nhc/" + name, text); }

  Report run(const std::string& text, bool all = false, double seconds = 20) {
    const Settings settings =
        read_settings("n1", {{"INCDIR", node.machine.root + "/nhc"}, {"SYSCONFIGDIR", node.machine.root}});
    CheckOptions options;
    options.all = all;
    options.seconds = seconds;
    return run_plan(make_plan(parse_nhc_config(text), "n1", settings), node.machine, options);
  }
  std::string line(const std::string& text, bool all = false) { return one_line_per_node(run(text, all)); }

  FakeNode node;
};

struct Case {
  const char* file;
  int code;
  const char* result;  ///< a part of the line of the node
};

TEST_F(Bash, RunsWhatNhcRuns) {
  script(
      "site.nhc",
      "SITE_LIMIT=7\n"
      "function check_site_disks() {\n"
      "  local found=2\n"
      "  if [[ $found -lt $1 ]]; then\n    die 3 \"$FUNCNAME:  found $found disks, expected $1\"\n    return 1\n  fi\n"
      "  return 0\n}\n"
      "check_site_pair() { check_hw_eth \"$1\" && check_hw_eth \"$2\"; }\n"
      "check_site_quiet() { return 4; }\n"
      "check_site_match() { mcheck \"$1\" \"$2\"; }\n"
      "check_site_size() { local kb; nhc_common_parse_size \"$1\" kb; [[ $kb -eq $2 ]]; }\n");
  const std::string more = in_site("more.sh");
  script("more.sh", "MORE=lo\ndeclare -A TABLE=( [a]=lo )\ncheck_more() { check_hw_eth \"$MORE\"; }\n");
  const std::string source = "* || source " + more + "\n* || check_more\n* || check_hw_eth ${TABLE[a]}\n";
  const Case cases[] = {
      {"* || check_site_disks 2\n", 0, "n1 | Healthy\n"},
      {"* || check_site_disks 4\n", 3, "Health check failed: check_site_disks:  found 2 disks, expected 4\n"},
      {"* || check_site_pair lo lo\n", 0, "n1 | Healthy\n"},
      {"* || check_site_pair lo nope0\n", 1, "failed: check_hw_eth: no network interface nope0\n"},
      {"* || check_site_quiet\n", 4, "failed: `check_site_quiet` ended with code 4\n"},
      {"* || check_site_match n07 '{n[01-10]}'\n* || check_site_match abc '/^a/' && ! check_site_match abc '!a*'\n", 0,
       "n1 | Healthy\n"},
      {"* || check_site_size 2GB 2097152 && check_site_size 512 512 && check_site_size 3k 3\n", 0, "n1 | Healthy\n"},
      {"* || check_ps_loadavg $((4*HW_CORES))\n", 0, "n1 | Healthy\n"},
      {"* || check_ps_loadavg $((HW_CORES/2))\n", 1, "failed: check_ps_loadavg: "},
      {"* || check_hw_eth $(echo lo)\n", 0, "n1 | Healthy\n"},
      {"* || check_hw_eth `echo nope0`\n", 1, "no network interface nope0\n"},
      {"* || if [ -d / ]; then check_hw_eth nope0; fi\n", 1, "no network interface nope0\n"},
      {"* || if [ -d /nowhere ]; then check_hw_eth nope0; fi\n", 0, "n1 | Healthy\n"},
      {"* || [ -d /nowhere ] || check_hw_eth lo\n", 0, "n1 | Healthy\n"},
      {"* || check_hw_eth nope0 || true\n", 1, "no network interface nope0\n"},
      {"* || LIMIT=$((2+5))\n* || [[ $LIMIT -eq $SITE_LIMIT ]] && check_hw_eth lo\n", 0, "n1 | Healthy\n"},
      {"* || export DEV=lo\n* || check_hw_eth ${DEV:-nope0}\n", 0, "n1 | Healthy\n"},
      {"* || check_hw_eth ${DEV:-nope0}\n", 1, "no network interface nope0\n"},
      {"* || die 5 of my own\n", 5, "Health check failed: of my own\n"},
      {"* || exit 6\n* || check_hw_eth nope0\n", 6, "failed: `exit 6` ended with code 6\n"},
      {"* || log \"to a file\"; vlog x; dbg y; syslog z; true\n", 0, "n1 | Healthy\n"},
      {"* || [ $NAME = nhc ] && [ -n \"$HOSTNAME$HOSTNAME_S\" ] && [ $HW_CORES = 2 ] && [ $HW_RAM_TOTAL -gt 0 ]\n", 0,
       "n1 | Healthy\n"},
      {"* || no_such_program\n", 127, "no_such_program: command not found\n"},
      {"* || check_hw_eth *\n", 1, "no network interface *\n"},
  };
  for (const Case& one : cases) {
    const Report report = run(one.file);
    EXPECT_EQ(exit_code(report, false), one.code) << one.file;
    EXPECT_THAT(one_line_per_node(report), HasSubstr(one.result)) << one.file;
  }
  EXPECT_EQ(line(source), "n1 | Healthy\n");
}

TEST_F(Bash, WrappersOfASiteGetTheOutputAndTheNameThatTheyAskFor) {
  script("site.nhc",
         "check_disk() {\n"
         "  local -a FOUND\n"
         "  check_cmd_output -t 5 -C \"$FUNCNAME\" -O FOUND -m '/^sd/' -M 'no disk in %c' \"$@\" || return 1\n"
         "  [[ ${#FOUND[*]} -eq 2 ]] || { die 7 \"$FUNCNAME:  ${#FOUND[*]} disks: ${FOUND[*]}\"; return 7; }\n"
         "}\n"
         "check_nothing() { check_cmd_output -OEMPTY true; [[ ${#EMPTY[*]} -eq 0 ]]; }\n"
         "check_nul() { check_cmd_output -m '!a*' -M 'found %L' printf 'a\\0b\\n'; }\n");
  EXPECT_EQ(line("* || check_disk printf 'sda\\\\n\\\\nsdb\\\\n'\n"), "n1 | Healthy\n");
  const Report three = run("* || check_disk printf 'sda\\\\nsdb\\\\nsdc'\n");
  EXPECT_EQ(exit_code(three, false), 7);
  EXPECT_THAT(one_line_per_node(three), HasSubstr("failed: check_disk:  3 disks: sda sdb sdc\n"));
  EXPECT_EQ(line("* || check_disk echo none\n"),
            "n1 | ERROR: nhc: Health check failed: check_disk: no disk in echo none.\n");
  EXPECT_EQ(line("* || check_nothing\n"), "n1 | Healthy\n");
  EXPECT_EQ(line("* || check_nul\n"), "n1 | ERROR: nhc: Health check failed: check_cmd_output: found ab.\n");
}

TEST_F(Bash, ALineTellsWhichChecksItCalled) {
  script("site.nhc", "check_pair() { check_hw_eth \"$1\" && check_none_such; }\n");
  const Report report =
      run("* || if [ -d / ]; then check_hw_eth lo; fi\n* || check_pair lo\n* || [ -d /no ] && check_x || true\n");
  EXPECT_THAT(report.results.at(0).outcome.called, testing::ElementsAre("check_hw_eth"));
  EXPECT_EQ(report.results.at(1).check, "check_none_such");
  EXPECT_EQ(report.results.at(1).outcome.kind, Outcome::Kind::not_checked);
  EXPECT_THAT(report.results.at(2).outcome.called,
              testing::ElementsAre("check_pair", "check_hw_eth", "check_none_such"));
  EXPECT_TRUE(report.results.at(3).outcome.called.empty());
}

TEST_F(Bash, UndefinedChecksAreNotCheckedAndTheOthersStayActive) {
  Report report =
      run("* || check_hw_eht lo\n* || if true then; fi; done\n* || [ -d / ] && check_gone 3\n/n(/ || check_hw_eth lo\n"
          "* || check_hw_eth lo\n* || check_hw_eth nope0\n",
          true);
  EXPECT_EQ(exit_code(report, true), 1);
  EXPECT_EQ(one_line_per_node(report),
            "n1 | ERROR: nhc: Health check failed: check_hw_eth: no network interface nope0\n");
  ASSERT_EQ(report.not_checked().size(), 4u);
  EXPECT_EQ(report.not_checked()[0]->outcome.text,
            "line 1: unknown check \"check_hw_eht\": neither Trireme nor the site's scripts have it; nearest is "
            "check_hw_eth");
  EXPECT_THAT(report.not_checked()[1]->outcome.text, StartsWith("line 2: bash cannot parse it: syntax error"));
  EXPECT_EQ(report.not_checked()[2]->check, "check_gone 3");
  EXPECT_THAT(report.not_checked()[3]->outcome.text, StartsWith("line 4: target: "));
  for (const Result* result : report.not_checked()) EXPECT_TRUE(result->outcome.unusable) << result->check;
  const Report again = report_from_json(to_json(report), "test");
  for (const Result* result : again.not_checked()) EXPECT_TRUE(result->outcome.unusable) << result->check;
  report = run("* || check_gone\n* || check_hw_eth lo\n");
  EXPECT_THAT(one_line_per_node(report),
              StartsWith("n1 | Healthy (1 of 2 not checked: check_gone (line 1: unknown check "));
  require_all_checked(report);
  EXPECT_EQ(exit_code(report, false), 1);
}

TEST_F(Bash, WithAllEveryFailureCountsAsInNhc) {
  script("site.nhc", "check_two() { die 1 first; die 1 second; }\n");
  const Report report = run("* || check_two\n* || check_hw_eth nope0\n* || false\n* || check_hw_eth lo\n", true);
  EXPECT_EQ(exit_code(report, true), 4);
  EXPECT_THAT(one_line_per_node(report), HasSubstr("failed: first\nn1 | ERROR: nhc: Health check failed: second\n"));
}

TEST_F(Bash, ASiteReplacesACheckAndKeepsWhatNhcBrings) {
  script("lbnl_hw.nhc", "check_hw_eth() { die 1 from NHC; }\n");
  EXPECT_EQ(line("* || check_hw_eth lo\n"), "n1 | Healthy\n");
  EXPECT_EQ(line("* || true && check_hw_eth lo\n"), "n1 | Healthy\n");
  script("zz_site.nhc", "check_hw_eth() { die 1 from the site; }\n");
  EXPECT_THAT(line("* || check_hw_eth lo\n"), HasSubstr("failed: from the site\n"));
  EXPECT_THAT(line("* || true && check_hw_eth lo\n"), HasSubstr("failed: from the site\n"));
  script("lbnl_hw.nhc", "check_hw_gm() { die 1 \"gm $1\"; }\n");
  EXPECT_THAT(line("* || check_hw_gm /x\n"), HasSubstr("failed: gm /x\n")) << "has no native form";
}

TEST_F(Bash, AHungFunctionIsEndedByTheWatchdogWithNhcsMessage) {
  script("site.nhc", "check_hang() { sleep 60; }\n");
  const Report report = run("* || check_hw_eth lo\n* || check_hang now\n* || check_hw_eth lo\n", true, 2);
  EXPECT_TRUE(report.timed_out);
  EXPECT_EQ(exit_code(report, true), 142);
  EXPECT_LT(report.seconds, 30);
  EXPECT_EQ(report.results.back().outcome.text,
            "watchdog: Script timed out while executing \"check_hang now\" (line 2 did not end within 2 s of the run)");
  script("site.nhc", "sleep 60\n");
  EXPECT_TRUE(run("* || true && true\n", false, 1).timed_out) << "a script that hangs while it is read";
}

TEST_F(Bash, ALineThatEndsTheShellEndsTheChecks) {
  const Report report = run("* || check_hw_eth lo\n* || exit 0\n* || check_hw_eth nope0\n* || A=1\n");
  EXPECT_EQ(exit_code(report, false), 0);
  EXPECT_THAT(one_line_per_node(report),
              StartsWith("n1 | Healthy (1 of 3 not checked: check_hw_eth (line 2 ended the checks)"));
  EXPECT_EQ(exit_code(run("* || exit 1\n* || A=lo\n* || check_hw_eth $A\n* || test $A = lo\n", true), true), 1);
  script("site.nhc", "exit 9\n");
  EXPECT_THAT(line("* || true && true\n* || check_hw_eth lo\n"), HasSubstr("site.nhc made bash exit (code 9)"));
}

TEST_F(Bash, OnlyFilesOfRootOrTheCallerAreRun) {
  script("open.nhc", "check_open() { return 0; }\n");
  chmod(in_site("open.nhc").c_str(), 0666);
  script("own.nhc", "check_own() { return 0; }\n");
  script("loose.sh", "touch " + in_site("touched") + "\n");
  chmod(in_site("loose.sh").c_str(), 0646);
  Report report = run("* || check_own\n* || check_open\n", true);
  EXPECT_TRUE(report.healthy());
  ASSERT_EQ(report.not_checked().size(), 2u);
  EXPECT_THAT(report.not_checked()[0]->outcome.text, HasSubstr("open.nhc: not read: it is world-writable; chmod o-w"));
  EXPECT_THAT(report.not_checked()[1]->outcome.text, HasSubstr("unknown check \"check_open\""));
  for (const char* how :
       {"source FILE", ". FILE", "[ -e FILE ] && . FILE", "if true; then source \"FILE\"; fi", "F=FILE; source $F"}) {
    std::string text = how;
    for (size_t at; (at = text.find("FILE")) != std::string::npos;) text.replace(at, 4, in_site("loose.sh"));
    report = run("* || " + text + "\n");
    EXPECT_TRUE(report.healthy()) << text << one_line_per_node(report);
    const auto left = report.not_checked();
    EXPECT_TRUE(std::ranges::any_of(left,
                                    [](const Result* result) {
                                      return result->outcome.text.find("loose.sh: not read: it is world-writable") !=
                                             std::string::npos;
                                    }))
        << text << one_line_per_node(report);
    EXPECT_FALSE(node.machine.exists("/nhc/touched")) << text;
  }
  if (geteuid() == 0) {
    script("theirs.sh", "true\n");
    ASSERT_EQ(chown(in_site("theirs.sh").c_str(), 4711, 4711), 0);
    EXPECT_EQ(why_not_trusted(in_site("theirs.sh")), "it belongs to user 4711, not to root or the caller; chown it");
  }
  chmod((node.machine.root + "/nhc").c_str(), 0777);
  EXPECT_THAT(why_not_trusted(in_site("none")), HasSubstr("is world-writable; chmod o-w"));
}

TEST_F(Bash, TheSysconfigFileSetsVariablesAndTheCommandLineWins) {
  node.file("/nhc-settings/nhc",
            "BASE=/\nexport LEAST=\"1 2\"\nTIMEOUT=$((20+3))\nGIVEN=file\n[ \"$NAME\" ] || NAME=x\n");
  node.file("/nhc/none", "");
  const Settings settings =
      read_settings("n1", {{"SYSCONFIGDIR", node.machine.root + "/nhc-settings"}, {"GIVEN", "told"}});
  EXPECT_EQ(settings.variables.at("BASE"), "/");
  EXPECT_EQ(settings.variables.at("LEAST"), "1 2");
  EXPECT_EQ(settings.variables.at("GIVEN"), "told");
  EXPECT_TRUE(settings.problems.empty());
  const Plan plan = make_plan(parse_nhc_config("* || check_fs_used $BASE 90%\n"), "n1", settings);
  EXPECT_EQ(plan.steps.at(0).kind, StepKind::native);
  EXPECT_EQ(watchdog_seconds(-1, plan), 23);
  const auto limit = [](const char* line) { return watchdog_seconds(-1, make_plan(parse_nhc_config(line), "n1", {})); };
  EXPECT_EQ(limit("* || check_gpu_ecc\nm || check_gpu_bw 48\n"), 30);
  EXPECT_EQ(limit("* || check_nccl_allreduce 460 1 16G $AZ_NHC_ROOT/topofiles/ndv5-topo.xml\n"), 500)
      << "for bash, too";
  chmod((node.machine.root + "/nhc-settings/nhc").c_str(), 0666);
  const Settings refused = read_settings("n1", {{"SYSCONFIGDIR", node.machine.root + "/nhc-settings"}});
  EXPECT_FALSE(refused.variables.contains("BASE"));
  ASSERT_EQ(refused.problems.size(), 1u);
  EXPECT_THAT(make_plan({}, "n1", refused).steps.at(0).problem, HasSubstr("it is world-writable"));
}

TEST_F(Bash, WhatALineLeavesRunningOutlivesTheChecks) {
  const std::string seconds = fmt::format("301.{}", getpid());
  EXPECT_TRUE(run("* || sleep " + seconds + " >/dev/null 2>&1 & true\n").healthy());
  const auto found =
      run_process({.arguments = {"pkill", "-f", "^sleep " + seconds}, .input = "", .variables = {}, .user = ""});
  EXPECT_EQ(found.exit_code, 0);
}

}  // namespace
}  // namespace trireme::health
