#include "report/reporter.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/file.h"
#include "report/append_file.h"
#include "report/run_log.h"
#include "report/sink.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

Metrics metrics_of(int64_t step, double loss) {
  Metrics m;
  m.step = step;
  m.loss = loss;
  m.learning_rate = 1e-3;
  m.tokens_per_second = 5000;
  m.samples = static_cast<uint64_t>(step) * 8;
  m.perplexity = std::exp(loss);
  m.memory_bytes = 123456789;
  m.gpu_memory_bytes = 5'000'000'000;
  m.gpu_memory_size = 80'000'000'000;
  m.loss_scale = 2048;
  return m;
}

Metrics with_gpus(Metrics m) {
  m.gpus = {{.busy = 0.5, .watts = 300, .celsius = 50, .memory_used = 5e9, .memory_size = 8e10, .errors = 0},
            {.busy = 0.75, .watts = 310, .celsius = 61, .memory_used = 6e9, .memory_size = 8e10, .slowdowns = 0x49}};
  m.gpu = summary_of(m.gpus);
  return m;
}

size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// While it exists files cannot grow beyond `bytes`, which simulates a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &old_); }

 private:
  rlimit old_{};
};

TEST(Reporter, WhatItLogsIsReadBack) {
  const TemporaryFolder run;
  {
    Reporter reporter({run.path()}, 0, 40, {{"model", "tiny"}, {"ranks", "2"}});
    reporter.step(with_gpus(metrics_of(10, 5.5)));
    reporter.evaluation({10, 5.25, 5.0, 0.5, true});
    reporter.checkpoint({10, run / "step-00000010", 0.25, true});
    reporter.sample({10, "In the", " beginning \"\xFF\"\n"});
    reporter.step(metrics_of(20, std::numeric_limits<double>::quiet_NaN()));
    reporter.finish("stopped", 24);
  }
  EXPECT_EQ(read_text(run / "metrics.jsonl").find(R"({"record":"start")"), 0u) << "the first line is a record";
  const RunLog log = read_run_log(run / "metrics.jsonl");
  ASSERT_EQ(log.steps.size(), 2u);
  EXPECT_EQ(log.steps[0].loss, 5.5);
  EXPECT_EQ(log.steps[0].samples, 80u);
  EXPECT_DOUBLE_EQ(*log.steps[0].perplexity, std::exp(5.5));
  EXPECT_EQ(log.steps[0].memory_bytes, 123456789u);
  EXPECT_EQ(log.steps[0].gpu_memory_bytes, 5'000'000'000u);
  EXPECT_EQ(log.steps[0].gpu_memory_size, 80'000'000'000u);
  EXPECT_EQ(log.steps[0].loss_scale, 2048);
  ASSERT_TRUE(log.steps[0].gpu);
  EXPECT_EQ(log.steps[0].gpu->busy, 0.625);
  EXPECT_EQ(log.steps[0].gpu->watts, 610);
  EXPECT_EQ(log.steps[0].gpu->celsius, 61);
  EXPECT_EQ(log.steps[0].gpu->errors, 0);
  EXPECT_THAT(read_text(run / "metrics.jsonl"),
              ::testing::HasSubstr(R"("gpus":{"busy":[0.5,0.75],"watts":[300.0,310.0],"celsius":[50.0,61.0],)"
                                   R"("memory_bytes":[5000000000.0,6000000000.0],"memory_size":[80000000000.0,)"
                                   R"(80000000000.0],"uncorrected_errors":[0.0,null],"slowdowns":[[],)"
                                   R"(["hw_slowdown","hw_thermal_slowdown"]]})"));
  EXPECT_TRUE(std::isnan(log.steps[1].loss));
  ASSERT_EQ(log.evaluations.size(), 1u);
  EXPECT_EQ(log.evaluations[0].train_loss, 5.25);
  EXPECT_TRUE(log.evaluations[0].best);
  ASSERT_EQ(log.checkpoints.size(), 1u);
  EXPECT_EQ(log.checkpoints[0].path, run / "step-00000010");
  ASSERT_EQ(log.samples.size(), 1u);
  EXPECT_EQ(log.samples[0].text, " beginning \"\xEF\xBF\xBD\"\n");  // bytes that are not UTF-8 become U+FFFD
  EXPECT_EQ(log.facts, (RunFacts{{"model", "tiny"}, {"ranks", "2"}}));
  EXPECT_EQ(log.total_steps, 40);
  ASSERT_EQ(log.attempts.size(), 1u);
  EXPECT_EQ(log.attempts[0].state, "stopped");
  EXPECT_EQ(log.attempts[0].last_step, 24);
  EXPECT_EQ(log.bad_lines, 0u);
}

TEST(Reporter, AResumedAttemptSupersedesTheStepsThatItDoesAgain) {
  const TemporaryFolder run;
  {
    Reporter killed({run.path()}, 0, 40, {});
    killed.step(metrics_of(10, 5));
    killed.step(metrics_of(20, 4));
    killed.step(metrics_of(30, 3));
  }
  std::ofstream(run / "metrics.jsonl", std::ios::app) << R"({"record":"step","st)";  // killed during a write
  {
    Reporter resumed({run.path()}, 20, 40, {});
    resumed.step(metrics_of(30, 2.5));
    resumed.finish("done", 40);
  }
  const RunLog log = read_run_log(run / "metrics.jsonl");
  ASSERT_EQ(log.steps.size(), 3u);
  EXPECT_EQ(log.steps[1].loss, 4);
  EXPECT_EQ(log.steps[2].loss, 2.5);
  ASSERT_EQ(log.attempts.size(), 2u);
  EXPECT_EQ(log.attempts[0].state, "");
  EXPECT_EQ(log.attempts[1].first_step, 20);
  EXPECT_EQ(log.bad_lines, 1u);
}

TEST(Reporter, TheLogRotatesAndIsReadBackWhole) {
  const TemporaryFolder run;
  const std::string path = run / "metrics.jsonl";
  const auto sink = make_jsonl_sink(path, 2000);
  sink->start({0, 1000, {{"model", "tiny"}}});
  constexpr int64_t kSteps = 40;  // about 250 bytes each
  for (int64_t step = 1; step <= kSteps; ++step) sink->step(metrics_of(step, 3));
  EXPECT_TRUE(std::filesystem::exists(path + ".3"));
  EXPECT_LT(std::filesystem::file_size(path + ".1"), 2500u);
  const RunLog log = read_run_log(path);
  ASSERT_EQ(log.steps.size(), static_cast<size_t>(kSteps));
  EXPECT_EQ(log.steps.front().step, 1);
  EXPECT_EQ(log.steps.back().step, kSteps);
  EXPECT_EQ(log.attempts.size(), 1u);
  for (int64_t step = kSteps; step <= 1000; ++step) sink->step(metrics_of(step, 3));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(run.path()), {}), 1 + kOlderLogs);
  EXPECT_EQ(read_run_log(path).steps.back().step, 1000);
}

TEST(Reporter, OtherRanksWriteNothing) {
  const TemporaryFolder run;
  testing::internal::CaptureStderr();
  {
    Reporter reporter({run.path(), true, true, false}, 0, 40, {{"model", "tiny"}});
    reporter.progress(1, 5);
    reporter.step(metrics_of(10, 5));
    reporter.finish("done", 40);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_TRUE(std::filesystem::is_empty(run.path()));
}

TEST(Reporter, AFolderThatCannotBeWrittenGivesOneWarningPerSink) {
  const TemporaryFolder folder;
  std::ofstream(folder / "run") << "a file where the run folder should be";
  testing::internal::CaptureStderr();
  {
    Reporter reporter({folder / "run"}, 0, 40, {});
    for (int step = 10; step <= 40; step += 10) reporter.step(metrics_of(step, 5));
  }
  const std::string console = testing::internal::GetCapturedStderr();
  EXPECT_EQ(occurrences(console, "warning: cannot open"), 2u) << console;
  EXPECT_EQ(occurrences(console, "metrics.jsonl: Not a directory: training continues without it"), 1u) << console;
  EXPECT_EQ(occurrences(console, "| loss"), 4u) << console;
}

TEST(Reporter, AFullDiskLosesRecordsButNeverCorruptsTheLog) {
  const TemporaryFolder run;
  write_text(run / "metrics.jsonl",
             std::string(10000, '\n'));  // larger than the captured console, which has the same limit
  testing::internal::CaptureStderr();
  {
    Reporter reporter({run.path(), true, false}, 0, 100, {});
    reporter.step(metrics_of(1, 5));
    {
      const FileSizeLimit full(std::filesystem::file_size(run / "metrics.jsonl") + 10);
      reporter.step(metrics_of(2, 4));
      reporter.step(metrics_of(3, 3));
    }
    reporter.step(metrics_of(4, 2));
  }
  const std::string console = testing::internal::GetCapturedStderr();
  EXPECT_EQ(occurrences(console, "warning: "), 1u) << console;
  EXPECT_EQ(occurrences(console, "metrics.jsonl: File too large"), 1u) << console;
  const RunLog log = read_run_log(run / "metrics.jsonl");
  EXPECT_EQ(log.bad_lines, 0u);
  ASSERT_EQ(log.steps.size(), 2u);
  EXPECT_EQ(log.steps[1].step, 4);
}

TEST(Reporter, AClosedTerminalDoesNotEndTheProcess) {
  const auto train_with_closed_stderr = [] {
    int ends[2];
    if (pipe(ends) != 0) std::exit(1);
    close(ends[0]);
    dup2(ends[1], STDERR_FILENO);  // every write gives EPIPE now
    Reporter reporter({}, 0, 40, {{"model", "tiny"}});
    reporter.step(metrics_of(10, 5));
    reporter.finish("done", 40);
    std::_Exit(7);
  };
  EXPECT_EXIT(train_with_closed_stderr(), testing::ExitedWithCode(7), "");
}

TEST(RunLog, HasTheRunningTimeAndTheOptionsOfTheLastAttempt) {
  const TemporaryFolder run;
  const char* step =
      R"({{"record":"step","time":{},"step":{},"loss":3,"learning_rate":1,"gradient_norm":1,"tokens_per_second":1,)"
      R"("ms_per_step":1,"exposed_share":0,"mfu":0,"samples":1,"tokens":1,"skipped":0}})"
      "\n";
  std::string text = R"({"record":"start","time":1000,"first_step":0,"steps":40,"facts":{},)"
                     R"("configuration":{"optim":{"clip":1.0}}})"
                     "\n";
  text += fmt::format(fmt::runtime(step), 1010, 10) + fmt::format(fmt::runtime(step), 1030, 20);
  text += R"({"record":"start","time":5000,"first_step":10,"steps":40,"facts":{},)"
          R"("configuration":{"optim":{"clip":0.5},"run":{"dir":"run"}}})"
          "\n";
  text += fmt::format(fmt::runtime(step), 5005, 20);
  write_text(run / "metrics.jsonl", text);
  const RunLog log = read_run_log(run / "metrics.jsonl");
  ASSERT_EQ(log.steps.size(), 2u);
  EXPECT_EQ(log.steps[0].seconds_run, 10);
  EXPECT_EQ(log.steps[1].seconds_run, 35) << "30 of the first attempt, 5 of the second";
  EXPECT_EQ(seconds_run(log), 35);
  EXPECT_EQ(log.configuration, (RunFacts{{"optim.clip", "0.5"}, {"run.dir", "run"}}));
}

TEST(RunLog, AFileWithoutRecordsIsAnError) {
  const TemporaryFolder folder;
  write_text(folder / "metrics.jsonl", "hello\n{\"loss\": 1}\n");
  EXPECT_ERROR(read_run_log(folder / "metrics.jsonl"), ErrorKind::data,
               "holds no records of a run (2 lines in other formats)");
  EXPECT_ERROR(read_run_log(folder / "absent"), ErrorKind::io, "cannot open");
}

}  // namespace
}  // namespace trireme
