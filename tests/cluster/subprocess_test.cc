#include "cluster/subprocess.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using namespace std::chrono_literals;

ProcessResult shell(const std::string& script, std::chrono::duration<double> timeout = 10s, std::string input = "") {
  ProcessRequest request;
  request.arguments = {"/bin/sh", "-c", script};
  request.timeout = timeout;
  request.input = std::move(input);
  return run_process(request);
}

TEST(Subprocess, GivesOutputsAndCode) {
  const ProcessResult result = shell("cat; echo problem >&2; exit 3", 10s, "in\n");
  EXPECT_EQ(result.out, "in\n");
  EXPECT_EQ(result.err, "problem\n");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(describe_end(result), "ended with code 3");
}

TEST(Subprocess, PassesMoreThanAPipeHoldsBothWays) {
  const std::string much(1 << 20, 'x');
  EXPECT_EQ(shell("cat", 10s, much).out, much);
  EXPECT_EQ(shell("exit 0", 10s, much).exit_code, 0);
}

TEST(Subprocess, EndsTheWholeGroupAtTheDeadline) {
  const ProcessResult result = shell("trap '' TERM; sleep 60 & echo $!; wait; sleep 60", 200ms);
  EXPECT_TRUE(result.timed_out);
  EXPECT_LT(result.seconds, 30);
  const pid_t child = std::stoi(result.out);
  const auto alive = [&] {
    std::ifstream file("/proc/" + std::to_string(child) + "/stat");
    std::string pid, name, state;
    return (file >> pid >> name >> state) && state != "Z";
  };
  for (int i = 0; i < 100 && alive(); ++i) std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(alive());
}

TEST(Subprocess, DoesNotWaitForADaemonThatHoldsTheOutput) {
  const ProcessResult result = shell("sleep 60 & echo started");
  EXPECT_EQ(result.out, "started\n");
  EXPECT_LT(result.seconds, 30);
}

TEST(Subprocess, VariablesAreAddedToTheEnvironmentAndTheirPathIsSearched) {
  setenv("TRIREME_TEST_KEPT", "kept", 1);
  setenv("TRIREME_TEST_CHANGED", "before", 1);
  const TemporaryFolder folder;
  std::ofstream(folder / "own-program") << "echo $TRIREME_TEST_KEPT $TRIREME_TEST_CHANGED $1\n";  // without "#!"
  std::filesystem::permissions(folder / "own-program", std::filesystem::perms::owner_all);
  ProcessRequest request;
  request.arguments = {"own-program", "word"};
  request.variables = {
      {"TRIREME_TEST_CHANGED", "first"}, {"PATH", folder / "" + ":/usr/bin:/bin"}, {"TRIREME_TEST_CHANGED", "last"}};
  const ProcessResult result = run_process(request);
  EXPECT_EQ(result.out, "kept last word\n") << result.err;
  request.variables.clear();
  EXPECT_EQ(run_process(request).exit_code, 127) << "our own PATH does not have it";
}

TEST(Subprocess, AUserHasItsOwnGroups) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can run a program as another user";
  ProcessRequest request;
  request.arguments = {"id"};
  request.user = "nobody";
  EXPECT_EQ(run_process(request).out, shell("id nobody").out);
  request.user = "no-such-user";
  EXPECT_THROW(run_process(request), Error);
}

TEST(Subprocess, StartsProgramsWhileOtherThreadsHoldLocks) {
  // A child that takes the lock of the environment, which a thread held when it was forked, never ends.
  std::atomic<bool> over = false;
  std::vector<std::thread> busy;
  for (int i = 0; i < 4; ++i) {
    busy.emplace_back([&over] {
      while (!over) unsetenv("TRIREME_TEST_ABSENT");
    });
  }
  ProcessRequest request;
  request.arguments = {"true"};
  request.timeout = 20s;
  for (int i = 0; i < 40; ++i)
    request.variables.emplace_back("TRIREME_TEST_" + std::to_string(i), std::string(200, 'y'));
  int failed = 0;
  for (int i = 0; i < 50; ++i) failed += run_process(request).exit_code != 0;
  over = true;
  for (std::thread& thread : busy) thread.join();
  EXPECT_EQ(failed, 0);
}

TEST(Subprocess, NamesSignalsAndMissingPrograms) {
  EXPECT_EQ(describe_end(shell("kill -9 $$")), "ended by signal 9 (Killed)");
  ProcessRequest request;
  request.arguments = {"no-such-program-here"};
  EXPECT_EQ(describe_end(run_process(request)), "does not exist (code 127)");
  request.user = "no-such-user";
  EXPECT_THROW(run_process(request), Error);
}

TEST(Subprocess, BoundsTheOutput) {
  ProcessRequest request;
  request.arguments = {"/bin/sh", "-c", "yes | head -c 1000000"};
  request.max_output = 1000;
  EXPECT_EQ(run_process(request).out.size(), 1000u);
}

TEST(ShellQuote, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(shell_join({"mpirun", "-x", "A=b c", "it's", ""}), "mpirun -x 'A=b c' 'it'\\''s' ''");
}

TEST(FindProgram, LooksInPath) {
  EXPECT_FALSE(find_program("sh").empty());
  EXPECT_TRUE(find_program("no-such-program-here").empty());
}

}  // namespace
}  // namespace trireme
