// `trireme status`, `stop` and `attach` during a training job.

#include <gmock/gmock.h>

#include "checkpoint/run_folder/run_control.h"
#include "checkpoint/run_folder/run_status.h"
#include "tests/runs/training_fixture.h"

namespace trireme {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class JobControl : public TrainingFixture {
 protected:
  std::vector<std::string> endless(const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> all = {"--run.steps", "1000000", "--checkpoint.every", "5"};
    all.insert(all.end(), flags.begin(), flags.end());
    return train("run", all);
  }
  static void wait_for_steps(Program& job) {
    ASSERT_TRUE(job.wait_for([](const std::string& out) { return out.find("snapshot of step 5 ") != out.npos; }))
        << job.output();
  }
  Outcome ask(const std::string& command, const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> words = {command, path("run")};
    words.insert(words.end(), flags.begin(), flags.end());
    return run(trireme_command(words));
  }
  /// A job is asked for its state, followed, and stopped with a snapshot, by whichever program it was started.
  void expect_to_be_controlled(Program& job, const std::string& ranks) {
    wait_for_steps(job);
    const Outcome status = ask("status");
    EXPECT_EQ(status.code, 0) << status.output;
    EXPECT_THAT(status.output, ContainsRegex("state +running: .*step [0-9]+"));
    EXPECT_THAT(status.output, ContainsRegex("job +" + ranks + " ranks?, rank 0 is process [0-9]+ on .*, since 20"));
    EXPECT_THAT(status.output, ContainsRegex("snapshot +step-0000"));
    EXPECT_THAT(status.output, ContainsRegex("last line +.*step"));

    Program attached(trireme_command({"attach", path("run")}));
    ASSERT_TRUE(attached.wait_for([&](const std::string& out) {
      return std::count(out.begin(), out.end(), '\n') > 60;  // more than the lines printed before it arrived
    })) << attached.output();

    const Outcome stopped = ask("stop");
    EXPECT_EQ(stopped.code, 0) << stopped.output;
    const int64_t step = progress("run").step;
    EXPECT_THAT(stopped.output, ContainsRegex("stopped after step " + std::to_string(step) +
                                              ", [0-9.]+ s after the request; "
                                              "newest snapshot: " +
                                              "step-0*" + std::to_string(step) + "\n"));
    const Outcome outcome = job.finish();
    EXPECT_EQ(outcome.code, 75) << outcome.output;
    EXPECT_THAT(outcome.output, ContainsRegex("stop requested by trireme stop \\(.+ on .+\\): saving after step " +
                                              std::to_string(step)));
    EXPECT_EQ(read_status(path("run")).requeue, false);

    const Outcome followed = attached.finish();
    EXPECT_EQ(followed.code, 75) << followed.output;
    EXPECT_THAT(followed.output, HasSubstr("saving after step " + std::to_string(step)));
    EXPECT_THAT(followed.output, HasSubstr("the job ended with code 75 (stopped) after step " + std::to_string(step)));
    EXPECT_FALSE(std::filesystem::exists(control_path(path("run"))));
  }
};

TEST_F(JobControl, OfOneProcess) {
  Program job(trireme_command(endless()));
  expect_to_be_controlled(job, "1");
  const Outcome after = ask("status");
  EXPECT_EQ(after.code, 0);
  EXPECT_THAT(after.output,
              ContainsRegex("state +no job is running in .*: it ended with code 75 \\(stopped\\) after step "));
  EXPECT_EQ(ask("stop").code, 0) << "what was wanted is so";
  const Outcome late = ask("attach");
  EXPECT_EQ(late.code, 1);
  EXPECT_THAT(late.output, HasSubstr("it ended with code 75 (stopped) after step "));
}

TEST_F(JobControl, OfRanksUnderMpirun) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  Program job(mpirun_command(2, endless()));
  expect_to_be_controlled(job, "2");
}

TEST_F(JobControl, OfALaunch) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  std::vector<std::string> words = {"launch", "--hosts", "localhost:2", "--"};
  for (const std::string& word : endless()) words.push_back(word);
  Program job(trireme_command(words));
  wait_for_steps(job);
  EXPECT_THAT(ask("status").output, ContainsRegex("launch +process [0-9]+ on .*, attempt 1: 2 ranks: localhost 2"));
  const Outcome json = ask("status", {"--json"});
  EXPECT_THAT(json.output, HasSubstr("\"state\":\"running\""));
  EXPECT_THAT(json.output, HasSubstr("\"launch\":{\"doing\":\"attempt 1"));
  expect_to_be_controlled(job, "2");
}

TEST_F(JobControl, AStoppedRankOfALaunchExitsWithZeroForMpirun) {
  // mpirun takes seconds and a box of words over any other code.
  Program job(trireme_command(endless()), {"TRIREME_LAUNCH_PLACE=h1,boot,1,10.0.0.1:1"});
  wait_for_steps(job);
  kill(job.pid(), SIGTERM);
  const Outcome outcome = job.finish();
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("stop requested by SIGTERM: saving after step"));
  EXPECT_EQ(read_status(path("run")).code, 75);
  EXPECT_TRUE(read_status(path("run")).requeue) << "a signal is no trireme stop";
}

TEST_F(JobControl, WhoDetachesLeavesTheJobAlone) {
  Program job(trireme_command(endless()));
  wait_for_steps(job);
  Program attached(trireme_command({"attach", path("run")}));
  ASSERT_TRUE(attached.wait_for([](const std::string& out) { return out.find("step") != out.npos; }));
  kill(attached.pid(), SIGINT);
  const Outcome outcome = attached.finish();
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("detached; the job continues"));
  EXPECT_TRUE(job.running());
  EXPECT_THAT(ask("status").output, ContainsRegex("running: .*step"));
  EXPECT_EQ(ask("stop").code, 0);
  EXPECT_EQ(job.finish().code, 75);
}

TEST_F(JobControl, NowEndsItWithoutASnapshot) {
  for (const int ranks : {1, 2}) {
    if (ranks > 1 && mpirun_path().empty()) continue;
    const std::vector<std::string> words =
        endless({"--checkpoint.every", "0", "--checkpoint.resume", "none", "--run.overwrite", "true"});
    Program job(ranks == 1 ? trireme_command(words) : mpirun_command(ranks, words));
    ASSERT_TRUE(job.wait_for([](const std::string& out) { return out.find("step       9/") != out.npos; }))
        << job.output();
    const Outcome stopped = ask("stop", {"--now"});
    EXPECT_EQ(stopped.code, 0) << stopped.output;
    EXPECT_THAT(stopped.output,
                ContainsRegex("the job ended with code 75 \\(stopped\\) after step [0-9]+: ended immediately by "
                              "trireme stop \\(.*\\) --now: the progress after the last snapshot is lost; newest "
                              "snapshot: none\n"));
    const Outcome outcome = job.finish();
    EXPECT_EQ(outcome.code, 75) << outcome.output;
    EXPECT_THAT(outcome.output, Not(HasSubstr("saving after step")));
    EXPECT_EQ(read_status(path("run")).state, RunState::stopped);
    EXPECT_FALSE(read_status(path("run")).requeue);
  }
}

TEST_F(JobControl, WhatAKilledJobLeftIsKnownForWhatItIs) {
  Program job(trireme_command(endless()));
  wait_for_steps(job);
  const std::string process = "process " + std::to_string(job.pid()) + " on ";
  kill(job.pid(), SIGKILL);
  job.finish();
  ASSERT_TRUE(std::filesystem::exists(control_path(path("run")))) << "nobody was there to remove it";
  const Outcome attach = ask("attach");
  EXPECT_EQ(attach.code, 1);
  EXPECT_THAT(attach.output, HasSubstr("no job is running in " + path("run")));
  EXPECT_THAT(attach.output, HasSubstr(process));
  // As after a crash of its host: only the process number shows it.
  write_status(path("run"), {.state = RunState::running, .host = "h"});
  for (const char* command : {"status", "stop"}) {
    const Outcome outcome = ask(command);
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("control.json is left over from " + process));
    EXPECT_THAT(outcome.output,
                HasSubstr("which exited without a status; start again to resume from the last checkpoint"));
  }
  // A job that resumes in the folder replaces it.
  Program next(trireme_command(endless()));
  ASSERT_TRUE(next.wait_for([](const std::string& out) { return out.find("RESUMING") != out.npos; })) << next.output();
  EXPECT_THAT(ask("status").output, ContainsRegex("rank 0 is process " + std::to_string(next.pid())));
  EXPECT_EQ(ask("stop").code, 0);
  EXPECT_EQ(next.finish().code, 75);
}

TEST_F(JobControl, AnUnreachableJobIsNotConsideredDead) {
  std::filesystem::create_directory(path("run"));
  write_status(path("run"), {.state = RunState::running, .host = "h2"});
  ControlPlace elsewhere{"h2", "boot", 7, {"127.0.0.1:1"}};
  write_control(path("run"), {"secret", elsewhere, {}});
  for (const char* command : {"status", "stop", "attach"}) {
    const Outcome outcome = ask(command);
    EXPECT_EQ(outcome.code, 1) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("process 7 on h2 does not answer"));
    EXPECT_THAT(outcome.output, HasSubstr("ssh h2 trireme status " + path("run")));
  }
  std::filesystem::remove(control_path(path("run")));
  EXPECT_THAT(ask("stop").output, HasSubstr("but control.json, which is needed to reach it, is missing"));
}

TEST_F(JobControl, AFolderThatIsNotARunIsNamed) {
  EXPECT_EQ(ask("status").code, 1);
  EXPECT_THAT(ask("status").output, HasSubstr("is not a run folder: the folder does not exist"));
  std::filesystem::create_directory(path("run"));
  EXPECT_THAT(ask("stop").output, HasSubstr("is not a run folder: it has neither control.json nor status.json"));
}

}  // namespace
}  // namespace trireme
