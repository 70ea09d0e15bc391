#include "cluster/subprocess.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "base/error.h"

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
