#include "cluster/health/nhc_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"

namespace trireme::health {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Plan plan_of(std::string_view text, std::string_view host = "n1", Variables environment = {},
             const Variables& fixed = {}) {
  Settings settings;
  settings.variables = std::move(environment);
  for (const auto& [name, value] : fixed) settings.variables[name] = value;
  settings.fixed = fixed;
  return make_plan(parse_nhc_config(text), host, settings);
}

/// Why the last line of a file cannot be used.
std::string reason(std::string_view text) {
  const Plan plan = plan_of(text);
  const Step& last = plan.steps.back();
  return last.kind == StepKind::bad ? last.placed_problem() : "no error";
}

TEST(NhcConfig, ReadsEveryRealFileUnchanged) {
  TRIREME_NEEDS_TEST_DATA("parsers/nhc");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test_data_dir() / "parsers/nhc")) {
    if (entry.path().extension() != ".conf") continue;
    const std::string text = read_text(entry.path());
    const Plan plan = make_plan(parse_nhc_config(text), "n1", {});
    size_t lines = 0;
    for (std::string_view line : split_lines(text)) {
      const std::string_view content = trim_blanks(line);
      lines += !content.empty() && content.front() != '#' ? 1u : 0u;
    }
    EXPECT_EQ(plan.steps.size(), lines) << entry.path();
    for (const Step& step : plan.steps) {
      // AZ_NHC_ROOT is of the environment of the run: its bash expands it.
      EXPECT_TRUE(step.kind != StepKind::command || step.text.find("$AZ_NHC_ROOT") != std::string::npos) << step.text;
      EXPECT_TRUE(step.applies);
    }
    ++files;
  }
  EXPECT_EQ(files, 12);
}

TEST(NhcConfig, EveryCheckOfAzuresFilesForSlurmHasANativeForm) {
  TRIREME_NEEDS_TEST_DATA("parsers/nhc");
  const auto path = test_data_dir() / "parsers/nhc/azurehpc_slurm_nd96amsr_v4.conf";
  const Plan plan = make_plan(parse_nhc_config(read_text(path)), "n1", {});
  std::vector<std::string> missing;
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::not_implemented) missing.push_back(step.name);
  }
  EXPECT_THAT(missing, IsEmpty());
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

TEST(NhcConfig, AWrongLineIsNamedAndTheOthersStayActive) {
  const Plan plan = plan_of(
      "* || check_hw_eth lo\n/n(/ || check_hw_eth lo\nno target\n* || check_hw_cpuinfo two\n* || check_hw_eth eth0\n");
  ASSERT_EQ(plan.steps.size(), 5u);
  EXPECT_EQ(plan.steps[0].kind, StepKind::native);
  for (size_t i : {1u, 2u, 3u}) {
    EXPECT_EQ(plan.steps[i].kind, StepKind::bad);
    EXPECT_TRUE(plan.steps[i].applies);
    EXPECT_THAT(plan.steps[i].placed_problem(), testing::StartsWith(fmt::format("line {}: ", i + 1)));
  }
  EXPECT_EQ(plan.steps[4].kind, StepKind::native);

  EXPECT_EQ(reason("* || check_hw_eth lo\n\n* | check_hw_eth lo\n"),
            "line 3: expected TARGET || CHECK, found \"* | check_hw_eth lo\"");
  EXPECT_EQ(reason("|| check_hw_eth lo\n"), "line 1: found nothing before \"||\"");
  EXPECT_EQ(reason("* || \n"), "line 1: found nothing after \"||\"");
  EXPECT_THAT(reason("{n[1-3} || check_hw_eth lo\n"), HasSubstr("line 1: target: match"));
  EXPECT_THAT(reason("/^sgpu0[1-5][01-02]/ || check_hw_eth lo\n"), HasSubstr("Invalid range end"));
  EXPECT_THAT(reason("* || check_hw_eth lo eth0\n"), HasSubstr("line 1: check_hw_eth: expected DEVICE"));
  EXPECT_THAT(reason("* || check_hw_physmem 1XB 2GB\n"), HasSubstr("expected a size such as 32GB or 1024kB"));
  EXPECT_THAT(reason("* || check_fs_used / 101%\n"), HasSubstr("expected 0% to 100%"));
  EXPECT_THAT(reason("* || check_hw_cpuinfo two\n"), HasSubstr("count: expected a number, found \"two\""));
  EXPECT_THAT(reason("* || check_fs_mount_rw -t ext4\n"), HasSubstr("the mount point is missing"));
  EXPECT_THAT(reason("* || check_fs_mount_rw -z / \n"), HasSubstr("unknown option -z"));
  EXPECT_THAT(reason("* || check_fs_mount_rw -f\n"), HasSubstr("option -f needs a value"));
  EXPECT_THAT(reason("* || check_hw_eth \"lo\n"), HasSubstr("line 1: the quote \" is not closed"));
  EXPECT_THAT(reason("* || check_cmd_output -m x\n"), HasSubstr("the command is missing"));
  EXPECT_THAT(reason("* || check_cmd_status -t -1 true\n"), HasSubstr("-t -1: expected seconds, or 0 for no limit"));
  EXPECT_THAT(reason("* || check_gpu_count 8 tpu\n"), HasSubstr("expected rocm or nothing"));
  for (const char* wrong : {"-1", "1.5", "1e99"})
    EXPECT_THAT(reason(std::string("* || check_gpu_count ") + wrong + "\n"),
                HasSubstr(std::string("count: expected a whole number from 0 to 1024, found \"") + wrong + "\""));
  EXPECT_THAT(reason("* || check_cuda_bw -5\n"), HasSubstr("GB/s: expected 0 or more, found \"-5\""));
  EXPECT_THAT(reason("* || check_nccl_allreduce 200 1e18\n"),
              HasSubstr("tries: expected a whole number from 0 to 1000, found \"1e18\""));
}

TEST(NhcConfig, AFileThatIsNoTextIsRefused) {
  std::string program =
      "\x7f"
      "ELF\2\1\1 || a\n";
  program += std::string(9, '\0');
  EXPECT_ERROR(parse_nhc_config(program), ErrorKind::config,
               "the configuration is not a text file: 13 of 22 bytes are control characters or not UTF-8; name NHC's "
               "file with --config");
  std::string packed;  // as of an archive: few NULs
  for (int i = 1; i < 5000; ++i) packed += static_cast<char>(i * i % 251);
  EXPECT_ERROR(parse_nhc_config(packed), ErrorKind::config, "is not a text file: ");
  EXPECT_ERROR(parse_nhc_config(std::string("\xFF\xFE*\0|\0|\0a\0", 10)), ErrorKind::config,
               "(UTF-16 is read after iconv -f UTF-16 -t UTF-8)");
  EXPECT_EQ(parse_nhc_config("# caf\xE9 de la gare\n* || check_hw_eth lo\n").size(), 1u) << "Latin-1";
  std::string stray = "* || check_hw_eth lo\n";
  for (int i = 0; i < 10; ++i) stray += "# a comment\n";
  EXPECT_EQ(parse_nhc_config(stray + std::string(1, '\0')).front().problem, "");
}

TEST(NhcConfig, AByteOrderMarkIsNotPartOfTheFirstLine) {
  const auto lines = parse_nhc_config("\xEF\xBB\xBFn1 || check_hw_eth lo\r\n");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].target_text, "n1");
  EXPECT_TRUE(make_plan(lines, "n1", {}).steps.at(0).applies);
}

TEST(NhcConfig, AFileThatOthersCanWriteIsRefusedAsSiteScriptsAre) {
  const TemporaryFolder folder;
  const std::string path = folder / "nhc.conf";
  write_text(path, "* || touch /x\n");
  EXPECT_EQ(read_nhc_config(path), "* || touch /x\n");
  chmod(path.c_str(), 0666);
  EXPECT_ERROR(read_nhc_config(path), ErrorKind::config,
               "is not used, because its lines run in bash: it is world-writable; chmod o-w");
  chmod(path.c_str(), 0644);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(path.c_str(), 4711, 4711), 0);
    EXPECT_ERROR(read_nhc_config(path), ErrorKind::config,
                 "it belongs to user 4711, not to root or the caller; chown it");
  }
  EXPECT_ERROR(read_nhc_config(folder / "none"), ErrorKind::config, "does not exist; name another one, or write");
}

TEST(NhcConfig, WhatOnlyAShellCanReadIsForBash) {
  const Variables known = {{"ROOT", "/"}, {"TWO", "a b"}};
  for (const char* line :
       {"check_ps_loadavg $((2*HW_CORES))", "check_hw_eth $(echo lo)", "check_hw_eth `echo lo`",
        "[ -d /x ] && check_hw_eth lo", "check_hw_eth lo || true", "if true; then check_hw_eth lo; fi",
        "source /etc/nhc/site.sh", "check_site_disks 3", "check_hw_eth ${DEVICE:-lo}", "check_hw_eth $NONE",
        "check_hw_eth $TWO", "check_fs_used /{a,b} 90%", "check_fs_used ~/x 90%", "check_hw_eth $'lo'",
        "check_hw_eth $1", "LIMIT=$((3*4))", "A=1 check_hw_eth lo", "! check_hw_eth lo", "ls /"}) {
    const Plan plan = plan_of(fmt::format("* || {}\n", line), "n1", known);
    EXPECT_EQ(plan.steps.at(0).kind, StepKind::command) << line;
  }
  for (const char* line : {"check_fs_used $ROOT 90%", "check_fs_used \"$ROOT\" 90%", "check_file_contents /f '/a$/'",
                           "check_cmd_output -m '/x/' -e 'a | b'", "check_cmd_output -m \"/a$/\" -e true"}) {
    EXPECT_EQ(plan_of(fmt::format("* || {}\n", line), "n1", known).steps.at(0).kind, StepKind::native) << line;
  }
}

TEST(NhcConfig, AfterALineForBashItsVariablesAreNotKnownHere) {
  const Plan plan = plan_of(
      "* || A=/\n* || check_fs_used $A 90%\n* || A=$(pwd)\n* || check_fs_used $A 90%\n* || B=$A\n"
      "* || check_hw_eth lo\n* || . /x.sh\n* || check_hw_eth lo\n");
  std::vector<StepKind> kinds;
  for (const Step& step : plan.steps) kinds.push_back(step.kind);
  EXPECT_THAT(kinds, ElementsAre(StepKind::variables, StepKind::native, StepKind::command, StepKind::command,
                                 StepKind::command, StepKind::native, StepKind::command, StepKind::command));
}

TEST(NhcConfig, SiteFunctionsReplaceNativeChecksAndNhcsDoNot) {
  Settings settings;
  settings.functions = {{"check_hw_eth", "/etc/nhc/scripts/site.nhc"},
                        {"check_hw_ib", "/etc/nhc/scripts/lbnl_hw.nhc"},
                        {"check_gpu_ecc", "/etc/nhc/scripts/azure_gpu_ecc.nhc"},
                        {"check_hw_gm", "/etc/nhc/scripts/lbnl_hw.nhc"}};
  const Plan plan = make_plan(
      parse_nhc_config("* || check_hw_eth lo\n* || check_hw_ib 200\n* || check_gpu_ecc\n* || check_hw_gm /x\n"), "n1",
      settings);
  EXPECT_EQ(plan.steps[0].kind, StepKind::command);
  EXPECT_EQ(plan.steps[1].kind, StepKind::native);
  EXPECT_EQ(plan.steps[2].kind, StepKind::native);
  EXPECT_EQ(plan.steps[3].kind, StepKind::command) << "NHC's own form of what has none here";
}

/// NHC reads a file with the `read` of a shell, which takes backslashes away; \040 stays in checks of file systems.
TEST(NhcConfig, BackslashesAreReadAsNhcReadsThem) {
  const auto words = [](const std::string& line) { return plan_of("* || " + line + "\n").steps.at(0).words; };
  EXPECT_THAT(words("check_file_contents /f '/a\\\\.b/'"), ElementsAre("/f", "/a\\.b/"));
  EXPECT_THAT(words("check_file_contents /f '/a\\.b/'"), ElementsAre("/f", "/a.b/"));
  EXPECT_THAT(words("check_fs_used '/a\\040b' 90%"), ElementsAre("/a\\040b", "90%"));
  EXPECT_THAT(words("check_fs_used \"/a\\\\040b\" 90%"), ElementsAre("/a\\040b", "90%"));
  EXPECT_THAT(words("check_fs_used /a\\040b 90%"), ElementsAre("/a\\040b", "90%"));
  EXPECT_THAT(words("check_file_contents /f \"a\\040b\""), ElementsAre("/f", "a040b"));
}

TEST(NhcConfig, LinesForOtherHostsAreReadToo) {
  EXPECT_THAT(reason("m1 || check_hw_cpuinfo two\n"), HasSubstr("expected a number"));
}

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
