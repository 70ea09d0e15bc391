// Machines that give less than asked for: told before the first step, with the numbers.

#include <fstream>
#include <sstream>

#include "tests/faults/fault_fixture.h"

namespace trireme {
namespace {

using ::testing::ContainsRegex;

class Surroundings : public FaultFixture {
 protected:
  static std::string shell(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += "'" + word + "' ";
    return text;
  }
  static size_t place(const Outcome& outcome, const std::string& text) { return outcome.output.find(text); }
  /// Training completed, and `text` was printed before its first step.
  static void expect_told(const Outcome& outcome, const std::string& text) {
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(count_of(outcome.output, text), 1) << text << " in\n" << outcome.output;
    EXPECT_LT(place(outcome, text), place(outcome, "step  1/20")) << outcome.output;
  }

  /// Mount points of control groups of version 2, and of version 1 with that controller.
  static std::vector<std::string> group_mounts(const std::string& controller) {
    std::vector<std::string> points;
    std::ifstream in("/proc/self/mountinfo");
    for (std::string line; std::getline(in, line);) {
      const std::string kind = line.substr(line.find(" - ") + 3);
      const bool fits = kind.starts_with("cgroup2 ") ||
                        (kind.starts_with("cgroup ") && (kind + ",").find("," + controller + ",") != std::string::npos);
      std::istringstream words(line);
      std::string point;
      for (int i = 0; i < 5; ++i) words >> point;
      if (fits) points.push_back(point);
    }
    return points;
  }
  /// The program in a mount namespace in which a control group of these limits replaces the real ones.
  Outcome run_limited(const std::string& cpus_in_percent, const std::string& memory_bytes,
                      const std::vector<std::string>& command) const {
    std::string script = "set -e\n";
    for (const std::string controller : {"cpu", "memory"}) {
      for (const std::string& point : group_mounts(controller)) {
        const std::string folder = path("group" + std::to_string(std::hash<std::string>()(point)));
        std::filesystem::create_directories(folder);
        write_text(folder + "/cpu.max", cpus_in_percent.empty() ? "max 100000" : cpus_in_percent + "000 100000");
        write_text(folder + "/cpu.cfs_quota_us", cpus_in_percent.empty() ? "-1" : cpus_in_percent + "000");
        write_text(folder + "/cpu.cfs_period_us", "100000");
        write_text(folder + "/memory.max", memory_bytes.empty() ? "max" : memory_bytes);
        write_text(folder + "/memory.limit_in_bytes", memory_bytes.empty() ? "9223372036854771712" : memory_bytes);
        script += "mount --bind '" + folder + "' '" + point + "'\n";
      }
    }
    return run({"unshare", "-m", "sh", "-c", script + "exec " + shell(command)});
  }
  /// Why control groups cannot be replaced; empty if they can.
  static std::string obstacle() {
    if (run({"unshare", "-m", "true"}).code != 0) return "mounting needs rights that this user has not";
    if (group_mounts("cpu").empty() || group_mounts("memory").empty()) return "no control groups are mounted here";
    return {};
  }
};

TEST_F(Surroundings, MoreRanksThanCoresOfACpuset) {
  if (!has_mpi()) GTEST_SKIP() << "mpirun is missing";
  auto words = mpirun_command(3, train("run"));
  words.insert(words.begin(), {"taskset", "-c", "0"});
  expect_told(run(words), "warning: 3 ranks on this host share 1 physical core: each computes more slowly");
}

TEST_F(Surroundings, MoreThreadsThanCoresOfACpuset) {
  auto words = trireme_command(train("run", {"--launch.threads", "2"}));
  words.insert(words.begin(), {"taskset", "-c", "0"});
  expect_told(run(words), "warning: launch.threads 2 on 1 physical core: threads wait for each other");
}

TEST_F(Surroundings, AControlGroupsQuotaBelowTheCores) {
  if (const std::string reason = obstacle(); !reason.empty()) GTEST_SKIP() << reason;
  const int64_t cores = std::atoi(run({"nproc"}).output.c_str());
  if (cores < 2) GTEST_SKIP() << "with one core a quota limits no thread";
  const Outcome outcome = run_limited("150", "", trireme_command(train("run", {"--launch.threads", "0"})));
  expect_told(outcome, "warning: the control group allows 1.5 processors for 1 rank on this host: 1 of ");
}

TEST_F(Surroundings, AMemoryLimitBelowThePlanIsRefused) {
  if (const std::string reason = obstacle(); !reason.empty()) GTEST_SKIP() << reason;
  const Outcome outcome = run_limited("", "33554432", trireme_command(train("run", {"--model.width", "512"})));
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_THAT(outcome.output, ContainsRegex("error: this run needs 0\\.[0-9]+ GB per rank .*but each of the 1 rank on "
                                            ".* can use only 0\\.03 GB"));
  EXPECT_EQ(count_of(outcome.output, "step  1/20"), 0);
}

}  // namespace
}  // namespace trireme
