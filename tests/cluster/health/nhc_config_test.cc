#include "cluster/health/nhc_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/test_data.h"

namespace trireme::health {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Plan plan_of(std::string_view text, std::string_view host = "n1", Variables environment = {},
             const Variables& fixed = {}) {
  return make_plan(parse_nhc_config(text, "nhc.conf"), "nhc.conf", host, std::move(environment), fixed);
}

std::string reason(std::string_view text) {
  try {
    plan_of(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::config);
    return e.what();
  }
  return "no error";
}

TEST(NhcConfig, ReadsEveryRealFileUnchanged) {
  TRIREME_NEEDS_TEST_DATA("parsers/nhc");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test_data_dir() / "parsers/nhc")) {
    if (entry.path().extension() != ".conf") continue;
    const std::string text = read_text(entry.path());
    const Plan plan = make_plan(parse_nhc_config(text, "f"), "f", "n1", {}, {});
    size_t lines = 0;
    for (std::string_view line : split_lines(text)) {
      const std::string_view content = trim_blanks(line);
      lines += !content.empty() && content.front() != '#' ? 1u : 0u;
    }
    EXPECT_EQ(plan.steps.size(), lines) << entry.path();
    for (const Step& step : plan.steps) {
      EXPECT_NE(step.kind, StepKind::command) << step.text;
      EXPECT_TRUE(step.applies);
    }
    ++files;
  }
  EXPECT_EQ(files, 12);
}

TEST(NhcConfig, OnlyMeasurementsThatNeedOtherProgramsLackANativeForm) {
  TRIREME_NEEDS_TEST_DATA("parsers/nhc");
  const auto path = test_data_dir() / "parsers/nhc/azurehpc_slurm_nd96amsr_v4.conf";
  const Plan plan = make_plan(parse_nhc_config(read_text(path), "f"), "f", "n1", {}, {});
  std::vector<std::string> missing;
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::not_implemented) missing.push_back(step.name);
  }
  EXPECT_THAT(missing, ElementsAre("check_cuda_bw", "check_nccl_allreduce", "check_ib_bw_gdr",
                                   "check_nccl_allreduce_ib_loopback"));
}

TEST(NhcConfig, KnowsTargetsVariablesAndCommands) {
  const Plan plan = plan_of(
      "# comment\n"
      "* || export ROOT=/opt MODE=x\n"
      "m* || export ROOT=/other\n"
      " *|| check_fs_used $ROOT 90%   # why\n"
      "{n[1-3]} || test -e ${ROOT}/f && true\n"
      "!n1 || check_hw_eth lo\n"
      "* || NAME=value\n");
  ASSERT_EQ(plan.steps.size(), 6u);
  EXPECT_EQ(plan.steps[0].kind, StepKind::variables);
  EXPECT_FALSE(plan.steps[1].applies);
  EXPECT_EQ(plan.steps[2].kind, StepKind::native);
  EXPECT_THAT(plan.steps[2].words, ElementsAre("/opt", "90%"));
  EXPECT_EQ(plan.steps[2].number, 4);
  EXPECT_EQ(plan.steps[3].kind, StepKind::command);
  EXPECT_TRUE(plan.steps[3].applies);
  EXPECT_FALSE(plan.steps[4].applies);
  EXPECT_EQ(plan.variables.at("NAME"), "value");
}

TEST(NhcConfig, ATargetMayNameAHostWithItsDomainOrWithout) {
  const auto applies = [](const std::string& target, std::string_view host) {
    return plan_of(target + " || check_hw_eth lo\n", host).steps.at(0).applies;
  };
  EXPECT_TRUE(applies("n*.viz", "n1.viz"));
  EXPECT_TRUE(applies("{n[00-15].viz}", "n03.viz"));
  EXPECT_TRUE(applies("n1", "n1.viz"));
  EXPECT_FALSE(applies("n*.viz", "n1.phys"));
  EXPECT_FALSE(applies("n*.viz", "n1"));
  EXPECT_FALSE(applies("!n1", "n1.viz"));
  EXPECT_FALSE(applies("!n1.viz", "n1.viz"));
  EXPECT_TRUE(applies("!n2", "n1.viz"));
}

TEST(NhcConfig, LinesMayNameTheHostAndTheVariablesOfThisProcess) {
  const Variables variables = variables_of("n1.viz");
  EXPECT_EQ(variables.at("HOSTNAME"), "n1.viz");
  EXPECT_EQ(variables.at("HOSTNAME_S"), "n1");
  const std::string path = std::getenv("PATH");
  EXPECT_THAT(variables.at("PATH"), testing::StartsWith(path));
  setenv("PATH", "/opt/bin:/usr/bin", 1);
  EXPECT_EQ(variables_of("n1").at("PATH"), "/opt/bin:/usr/bin:/bin:/usr/sbin:/sbin");
  unsetenv("PATH");
  EXPECT_EQ(variables_of("n1").at("PATH"), "/usr/bin:/bin:/usr/sbin:/sbin");
  setenv("PATH", path.c_str(), 1);
}

TEST(NhcConfig, ABackslashJoinsLines) {
  const Plan plan =
      plan_of("* || check_fs_used \\\r\n  / \\\n 90%\n# no \\\n* || false\n* || check_hw_eth lo\n* || echo \\");
  ASSERT_EQ(plan.steps.size(), 3u);
  EXPECT_THAT(plan.steps[0].words, ElementsAre("/", "90%"));
  EXPECT_EQ(plan.steps[0].number, 1);
  EXPECT_EQ(plan.steps[1].number, 6);
  EXPECT_EQ(plan.steps[2].text, "echo \\");
}

TEST(NhcConfig, KnowsEveryCheckOfNhcsOwnFile) {
  const Plan plan = plan_of(
      "* || check_hw_physmem_free 5GB\n* || check_hw_gm myri0\n* || check_fs_ifree / 1k\n"
      "* || check_dmi_data_match -t \"Memory Device\" \"*Speed: 1866 MHz\"\n* || check_hw_mcelog\n"
      "* || check_file_test -r -w -x -d -k /tmp /var/tmp\n* || check_file_stat -m 0666 -u 0 -g 0 -t 1 -T 3 /dev/null\n"
      "* || check_ps_service -d rpc.statd -r nfslock\n* || check_ps_blacklist sshd '!root'\n"
      "* || check_ps_unauth_users log syslog kill\n* || check_ps_userproc_lineage log syslog\n"
      "* || check_moab_sched -t 10 -v 7.2.3 -m '!/PAUSED/'\n* || check_moab_rm -t 10\n* || check_moab_torque -t 10\n"
      "* || check_cmd_status -t 1 -r 1 selinuxenabled\n* || check_nv_healthmon\n");
  EXPECT_EQ(plan.steps.size(), 16u);
}

TEST(NhcConfig, CommandLineVariablesWin) {
  const Plan plan = plan_of("* || export A=file B=file\n", "n1", {{"A", "env"}}, {{"A", "flag"}});
  EXPECT_EQ(plan.variables.at("A"), "flag");
  EXPECT_EQ(plan.variables.at("B"), "file");
}

TEST(NhcConfig, NamesTheLineThatItRejects) {
  EXPECT_EQ(reason("* || check_hw_eth lo\n\n* | check_hw_eth lo\n"),
            "nhc.conf:3: expected TARGET || CHECK, found \"* | check_hw_eth lo\"");
  EXPECT_EQ(reason("|| check_hw_eth lo\n"), "nhc.conf:1: nothing before \"||\"");
  EXPECT_EQ(reason("* || \n"), "nhc.conf:1: nothing behind \"||\"");
  EXPECT_EQ(reason("* || check_hw_eht lo\n"), "nhc.conf:1: no check \"check_hw_eht\"; nearest is check_hw_eth");
  EXPECT_THAT(reason("{n[1-3} || check_hw_eth lo\n"), HasSubstr("nhc.conf:1: target: match"));
  EXPECT_THAT(reason("x || check_hw_eth lo eth0\n"), HasSubstr("nhc.conf:1: check_hw_eth: expected DEVICE"));
  EXPECT_THAT(reason("* || check_hw_physmem 1XB 2GB\n"), HasSubstr("expected a size such as 32GB or 1024kB"));
  EXPECT_THAT(reason("* || check_fs_used / 101%\n"), HasSubstr("expected 0% to 100%"));
  EXPECT_THAT(reason("* || check_hw_cpuinfo two\n"), HasSubstr("count: expected a number, found \"two\""));
  EXPECT_THAT(reason("* || check_fs_mount_rw -t ext4\n"), HasSubstr("no mount point"));
  EXPECT_THAT(reason("* || check_fs_mount_rw -z / \n"), HasSubstr("option -z is not known here"));
  EXPECT_THAT(reason("* || check_fs_mount_rw -f\n"), HasSubstr("option -f needs a value"));
  EXPECT_THAT(reason("* || check_hw_eth lo && true\n"), HasSubstr("shell operators around check_hw_eth"));
  EXPECT_EQ(reason("* || [ -d /x ] && check_hw_eth lo\n"),
            "nhc.conf:1: check_hw_eth is no command, and conditions around it are not read; write one check per line");
  EXPECT_EQ(
      reason("* || check_ps_loadavg $((2*HW_CORES))\n"),
      "nhc.conf:1: check_ps_loadavg: $(...) is not computed here; write its value, or set a variable on the command "
      "line");
  EXPECT_THAT(reason("* || check_hw_eth \"lo\n"), HasSubstr("nhc.conf:1: the quote \" is never closed"));
  EXPECT_THAT(reason("* || check_cmd_output -m x\n"), HasSubstr("no command"));
  EXPECT_THAT(reason("* || check_cmd_status -t -1 true\n"), HasSubstr("-t -1: expected seconds, or 0 for no limit"));
  EXPECT_THAT(reason("* || check_gpu_count 8 tpu\n"), HasSubstr("expected rocm or nothing"));
}

TEST(NhcConfig, LinesForOtherHostsAreReadToo) { EXPECT_THAT(reason("m1 || check_nonsense\n"), HasSubstr("no check")); }

TEST(Sizes, KnowNhcsUnits) {
  EXPECT_EQ(parse_size_kb("1857830712kB"), 1857830712.0);
  EXPECT_EQ(parse_size_kb("90"), 90.0);
  EXPECT_EQ(parse_size_kb("2GB"), 2.0 * 1024 * 1024);
  EXPECT_EQ(parse_size_kb("1.5M"), 1536.0);
  EXPECT_EQ(parse_size_kb("1GiB"), 1024.0 * 1024);
  EXPECT_EQ(parse_size_kb("2048B"), 2.0);
}

TEST(KnownChecks, AreSortedAndUnique) {
  const auto known = known_checks();
  EXPECT_TRUE(std::ranges::is_sorted(known, std::less_equal<>{}, &KnownCheck::name));
}

}  // namespace
}  // namespace trireme::health
