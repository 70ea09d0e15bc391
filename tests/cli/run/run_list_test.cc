#include "cli/run/status.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/run_folder/run_status.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::HasSubstr;

std::string start(double time, int first) {
  return fmt::format(R"({{"record":"start","time":{},"first_step":{},"steps":100,"facts":{{}}}})", time, first) + "\n";
}
std::string finish(double time, int step) {
  return fmt::format(R"({{"record":"finish","time":{},"step":{},"state":"stopped"}})", time, step) + "\n";
}

class RunList : public testing::Test {
 protected:
  /// Two attempts: 2 hosts for half an hour, then 4 hosts for an hour.
  void make(const std::string& name) {
    const std::string run = folder / name;
    std::filesystem::create_directories(run);
    write_status(run, {.state = RunState::stopped, .step = 100});
    write_text(run + "/metrics.jsonl", start(1010, 0) + finish(2800, 50) + start(10010, 50) + finish(13600, 100));
    record_attempt(run, {1000, 2, 8});
    record_attempt(run, {5000, 2, 8});  // failed before its first record
    record_attempt(run, {10000, 4, 16});
  }
  std::string listed(const std::vector<std::string>& folders, bool json = false) {
    testing::internal::CaptureStdout();
    const auto code = list_runs(folders, json);
    std::fflush(stdout);
    return testing::internal::GetCapturedStdout() + (code ? "" : "nothing");
  }
  TemporaryFolder folder;
};

TEST_F(RunList, NodeHoursAreThoseOfAllAttempts) {
  make("a");
  EXPECT_NEAR(node_hours(folder / "a").value(), 5, 1e-9);
  std::filesystem::remove(folder / "a/attempts.jsonl");
  EXPECT_FALSE(node_hours(folder / "a"));
}

TEST_F(RunList, ShowsEveryRunBelowAFolderAndTheirSum) {
  make("project/one/run");
  make("project/two");
  std::filesystem::remove(folder / "project/two/attempts.jsonl");
  std::filesystem::create_directories(folder / "project/empty");
  const std::string text = listed({folder.path()});
  EXPECT_THAT(text, HasSubstr("project/one/run  stopped            100/100          -        5.00\n"));
  EXPECT_THAT(text, HasSubstr("project/two      stopped            100/100          -           -\n"));
  EXPECT_THAT(text, HasSubstr("2 runs, 5.00 node-hours; unknown for 1 run\n"));
  EXPECT_THAT(listed({folder / "project/one", folder / "project/two"}), HasSubstr("2 runs, "));
  EXPECT_THAT(listed({folder.path()}, true),
              HasSubstr(R"("state":"stopped","step":100,"steps":100,"best_validation_loss":null,"node_hours":5.0})"));
}

TEST_F(RunList, LeavesOneRunAndAFolderWithoutRunsToTheStatusItself) {
  make("a");
  EXPECT_EQ(listed({folder / "a"}), "nothing");
  std::filesystem::create_directories(folder / "b");
  EXPECT_EQ(listed({folder / "b"}), "nothing");
  EXPECT_THROW(list_runs({folder / "b", folder / "c"}, false), Error);
}

TEST_F(RunList, AnUnfinishedLineOfAKilledAttemptIsSkipped) {
  write_text(folder / "attempts.jsonl", "{\"time\":1,\"ho");
  record_attempt(folder.path(), {2, 3, 4});
  const auto attempts = read_attempts(folder.path());
  ASSERT_EQ(attempts.size(), 1u);
  EXPECT_EQ(attempts[0].hosts, 3);
}

}  // namespace
}  // namespace trireme
