// The results, output, files and refusals of a training run.

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/affinity.h"
#include "base/json.h"
#include "tests/runs/training_fixture.h"
#include "tests/support/paths.h"

namespace trireme {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class Training : public TrainingFixture {
 protected:
  Outcome done(const std::string& run_name, const std::vector<std::string>& flags = {}) {
    const Outcome outcome = run(trireme_command(train(run_name, flags)));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome;
  }
  void expect_refused(int code, const std::string& message, const std::vector<std::string>& flags) {
    const Outcome outcome = run(trireme_command(train("refused", flags)));
    EXPECT_EQ(outcome.code, code) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(message));
  }
  static std::string line_with(const std::string& output, const std::string& text) {
    std::istringstream in(output);
    for (std::string line; std::getline(in, line);) {
      if (line.find(text) != std::string::npos) return line;
    }
    return "no line has " + text + " in:\n" + output;
  }
};

TEST_F(Training, AccumulationEqualsTheFullBatch) {
  done("whole", {"--batch.micro", "12", "--run.steps", "10"});
  done("parts", {"--batch.micro", "2", "--run.steps", "10"});
  const auto whole = losses("whole"), parts = losses("parts");
  ASSERT_EQ(whole.size(), 10u);
  for (const auto& [step, loss] : whole) EXPECT_NEAR(parts.at(step), loss, 1e-5 * loss) << step;
  const auto a = weights("whole"), b = weights("parts");
  ASSERT_EQ(a.size(), b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(a[i] - b[i])));
  EXPECT_LT(worst, 1e-5);
}

TEST_F(Training, WarmsUpAndFallsAlongTheCosine) {
  done("run", {"--optim.learning-rate", "1e-3", "--optim.min-learning-rate", "1e-4", "--optim.warmup-steps", "4",
               "--optim.decay-steps", "14"});
  std::map<int64_t, double> rates;
  for (const Metrics& m : read_run_log(path("run") + "/metrics.jsonl").steps) rates[m.step] = m.learning_rate;
  // The rate of step n + 1 is that of nanoGPT's iteration n: peak (n + 1) / (warm-up + 1), then the cosine.
  EXPECT_NEAR(rates.at(1), 1e-3 / 5, 1e-12);
  EXPECT_NEAR(rates.at(4), 4e-3 / 5, 1e-12);
  EXPECT_NEAR(rates.at(5), 1e-3, 1e-12);
  EXPECT_NEAR(rates.at(10), 5.5e-4, 1e-12);
  EXPECT_NEAR(rates.at(15), 1e-4, 1e-12);
  EXPECT_NEAR(rates.at(20), 1e-4, 1e-12);
}

TEST_F(Training, ATestSetIsMeasuredAfterTheLastStep) {
  const Outcome outcome = done("run", {"--data.test", "val.bin"});
  const RunLog log = read_run_log(path("run") + "/metrics.jsonl");
  ASSERT_EQ(log.tests.size(), 1);
  EXPECT_EQ(log.tests[0].step, 20);
  EXPECT_EQ(log.tests[0].loss, log.evaluations.back().validation_loss) << "the same windows of the same file";
  EXPECT_THAT(outcome.output, HasSubstr(fmt::format("test at step 20: loss {:.4f}, perplexity {:.2f} (",
                                                    log.tests[0].loss, std::exp(log.tests[0].loss))));
  EXPECT_THAT(line_with(outcome.output, "data  "), HasSubstr("val.bin (4000 tokens), test "));
  const Outcome absent = run(trireme_command(train("absent", {"--data.test", "nowhere.bin"})));
  EXPECT_EQ(absent.code, 1) << absent.output;
  EXPECT_THAT(absent.output, HasSubstr("nowhere.bin"));
}

TEST_F(Training, WithoutValidationDataNothingIsCalledAValidationLoss) {
  const Outcome outcome = done("run", {"--data.validation", "", "--evaluation.every", "10"});
  EXPECT_THAT(line_with(outcome.output, "evaluation at step 20"),
              MatchesRegex(R"(.*evaluation at step 20: train loss [0-9.]+, no validation data \([0-9.]+ s\))"));
  EXPECT_THAT(outcome.output, HasSubstr("there is no best snapshot: there is no validation data; the newest is " +
                                        path("run") + "/step-00000020"));
  EXPECT_FALSE(std::filesystem::exists(path("run") + "/best"));
  const RunLog log = read_run_log(path("run") + "/metrics.jsonl");
  ASSERT_FALSE(log.evaluations.empty());
  EXPECT_TRUE(log.evaluations.back().train_loss);
  EXPECT_FALSE(log.evaluations.back().validation_loss);
  done("more", {"--data.validation", "", "--checkpoint.resume", path("run"), "--run.steps", "22"});
  const Outcome report = run(trireme_command({"report", path("run")}));
  EXPECT_EQ(report.code, 0) << report.output;
  EXPECT_THAT(read_text(path("run") + "/report.html"), Not(HasSubstr("validation loss")));
}

TEST_F(Training, LogsOneLinePerIntervalAndTheSameToFiles) {
  const Outcome outcome = done(
      "run", {"--log.every", "5", "--evaluation.every", "10", "--checkpoint.every", "10", "--log.peak-tflops", "0"});
  EXPECT_THAT(line_with(outcome.output, "step 10/20 |"),
              MatchesRegex(R"(step 10/20 \| loss +[0-9.]+ \| lr [0-9.e-]+ \| grad +[0-9.]+ \| +[0-9]+ tok/s \| )"
                           R"(+[0-9.]+ ms/step \| wait +[0-9.]+% \| mfu +[0-9.]+%)"));
  EXPECT_THAT(line_with(outcome.output, "evaluation at step 20"),
              MatchesRegex(R"(.*validation loss [0-9.]+, perplexity [0-9.]+, train loss [0-9.]+.*)"));
  EXPECT_THAT(line_with(outcome.output, "mfu  "), HasSubstr("6 x matmul parameters + 6 x layers x width x sequence"));
  EXPECT_THAT(line_with(outcome.output, "step 10/20 |"), HasSubstr("wait  0.0%")) << "one rank waits for no other";
  for (const std::string step : {"10", "20"}) {
    const std::string saved = "snapshot of step " + step + " is in";
    const size_t first = outcome.output.find(saved);
    ASSERT_NE(first, std::string::npos) << outcome.output;
    EXPECT_EQ(outcome.output.find(saved, first + 1), std::string::npos) << "saved once, also as the best so far";
  }
  EXPECT_THAT(outcome.output, Not(HasSubstr("\r"))) << "no progress bar in a pipe";
  EXPECT_EQ(losses("run").size(), 5u) << "steps 1, 5, 10, 15, 20";
  for (const Metrics& m : read_run_log(path("run") + "/metrics.jsonl").steps) {
    EXPECT_DOUBLE_EQ(m.perplexity.value(), std::exp(m.loss)) << m.step;
    EXPECT_GT(m.memory_bytes, 1'000'000u);
    EXPECT_LT(m.memory_bytes, 4'000'000'000u);
    EXPECT_GT(m.updates_per_second, 0);
    EXPECT_NEAR(m.samples_per_second, 12 * m.updates_per_second, 1e-6 * m.samples_per_second) << "batch.global is 12";
  }
  EXPECT_TRUE(std::filesystem::exists(path("run") + "/metrics.jsonl"));
  ASSERT_TRUE(std::filesystem::exists(path("run") + "/tensorboard"));
  EXPECT_FALSE(std::filesystem::is_empty(path("run") + "/tensorboard"));
}

TEST_F(Training, ShowsProgressOnATerminal) {
  std::string command = trireme_path();
  for (const std::string& word : train("run", {"--run.steps", "400", "--log.every", "100"})) command += " " + word;
  const Outcome outcome = run({"script", "-qec", command, "/dev/null"});
  if (outcome.code == 127) GTEST_SKIP() << "the program script, which gives a terminal, is not installed";
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("\r"));
  EXPECT_THAT(outcome.output, HasSubstr("left"));
}

TEST_F(Training, EvaluatesOnlyWithoutTouchingTheRun) {
  done("run", {"--run.steps", "3", "--evaluation.every", "3"});
  const auto before = std::filesystem::last_write_time(path("run") + "/metrics.jsonl");
  const Outcome outcome = done("run", {"--evaluation.only", "true"});
  EXPECT_THAT(outcome.output, HasSubstr("evaluation at step 3: validation loss"));
  EXPECT_EQ(std::filesystem::last_write_time(path("run") + "/metrics.jsonl"), before);
}

TEST_F(Training, EvaluatingOnlyTakesTheMemoryOfTheWeights) {
  // 12 blocks of width 512: 151 MB of weights, 454 MB more of gradients and moments.
  const std::vector<std::string> model = {"--model.layers", "12", "--model.width", "512", "--model.heads",        "8",
                                          "--batch.global", "1",  "--run.steps",   "1",   "--evaluation.batches", "1"};
  auto only = model;
  only.insert(only.end(), {"--evaluation.only", "true"});
  const Outcome evaluated = done("evaluated", only), trained = done("trained", model);
  EXPECT_THAT(line_with(evaluated.output, "memory  "),
              ContainsRegex("planned per rank: weights 0.15 GB, .* snapshot 0.00 GB"));
  EXPECT_THAT(line_with(trained.output, "memory  "),
              ContainsRegex("planned per rank: weights, gradients and moments 0.61 GB, .* snapshot 0.45 GB"));
  if (!kMemoryCounts) return;
  EXPECT_LT(evaluated.peak_rss, 300'000'000u);
  EXPECT_GT(trained.peak_rss, 900'000'000u);
}

TEST_F(Training, RefusesAnEpsilonOfZero) {
  expect_refused(2, "--optim.epsilon is 0, expected a number from 1e-30 to 1", {"--optim.epsilon", "0"});
}

TEST_F(Training, RefusesARunThatDoesNotFitInMemory) {
  expect_refused(2, "this run needs ", {"--model.width", "16384", "--model.heads", "2", "--model.layers", "100"});
  expect_refused(2, "lower batch.micro (now 12 rows) or batch.sequence",
                 {"--model.width", "16384", "--model.heads", "2", "--model.layers", "100", "--batch.micro", "12"});
}

TEST_F(Training, NamesTheFileAndLineOfAWrongOption) {
  write_text(path("wrong.yaml"), "model:\n  widht: 64\n");
  expect_refused(2, "wrong.yaml:2: unknown option \"model.widht\"; did you mean \"model.width\"?",
                 {path("wrong.yaml")});
  write_text(path("wrong.yaml"), "model:\n  width: broad\n");
  expect_refused(2, "wrong.yaml:2: model.width is \"broad\", expected a whole number from", {path("wrong.yaml")});
  expect_refused(2, "did you mean \"run.steps\"?", {"--run.stesp", "3"});
}

TEST_F(Training, NamesWhatIsWrongWithTheData) {
  expect_refused(1, "the token file " + path("absent") + "/train.bin does not exist; make it with `trireme prepare`",
                 {"--data.dir", path("absent")});
  write_text(path("short.bin"), std::string("\1\0\2\0\3\0", 6));
  expect_refused(1, "short.bin has 3 tokens, one sample needs 17; lower batch.sequence or use more text",
                 {"--data.train", path("short.bin")});
  write_text(path("empty.bin"), "");
  expect_refused(1, "empty.bin", {"--data.train", path("empty.bin")});
  expect_refused(1, "train.bin", {"--model.vocabulary", "20"});  // ids up to 30
  const Outcome nothing = run(trireme_command({"train"}));
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.output, HasSubstr("train needs a configuration file or options"));
}

TEST_F(Training, RefusesAFolderThatAnotherJobTrainsIn) {
  Program first(trireme_command(train("refused", {"--run.steps", "1000000"})));
  ASSERT_TRUE(first.wait_for([](const std::string& out) { return out.find("step       5/") != std::string::npos; }))
      << first.output();
  expect_refused(1, "run folder " + path("refused") + " belongs to ", {});
  EXPECT_TRUE(first.running());
  kill(first.pid(), SIGTERM);
  EXPECT_EQ(first.finish().code, 75);
}

TEST_F(Training, RefusesRanksWithDifferentConfigurations) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const std::string script = fmt::format(
      "#!/bin/sh\nexec {} train {} --run.dir {} --run.steps $((5 + ${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}))\n",
      trireme_path(), path("config.yaml"), path("run"));
  write_text(path("rank.sh"), script);
  std::filesystem::permissions(path("rank.sh"), std::filesystem::perms::owner_all);
  const Outcome outcome = run({mpirun_path(), "-n", "2", path("rank.sh")});
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("ranks do not run the same configuration"));
  EXPECT_THAT(outcome.output, HasSubstr("steps"));
  EXPECT_FALSE(std::filesystem::exists(path("run"))) << "nothing may start";
}

/// Cores of every thread of a process, as the system has them.
std::vector<std::string> allowed_cpus(pid_t pid) {
  std::vector<std::string> out;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid))) {
    const std::string status = read_text((task.path() / "status").string());
    const size_t at = status.find("Cpus_allowed_list:\t") + 19;
    out.push_back(status.substr(at, status.find('\n', at) - at));
  }
  return out;
}

TEST_F(Training, BindsItsThreadsAsItPrints) {
  const std::vector<Cpus> cores = physical_cores();
  if (cores.size() < 2) GTEST_SKIP() << "needs two cores";
  for (const std::string bind : {"auto", "inherit"}) {
    const std::string first = std::to_string(cores[0][0]);
    std::vector<std::string> command = trireme_command(
        train("run-" + bind, {"--launch.bind", bind, "--launch.threads", "1", "--run.steps", "1000000"}));
    command.insert(command.begin(), {"taskset", "-c", first});
    Program program(command);
    ASSERT_TRUE(program.wait_for([](const std::string& out) { return out.find("step       5/") != std::string::npos; }))
        << program.output();
    EXPECT_THAT(program.output(),
                HasSubstr(bind == "auto" ? "rank 0: core " + first + ", 1 thread"
                                         : "rank 0: processors " + first + " as the launcher bound them, 1 thread"));
    for (const std::string& cpus : allowed_cpus(program.pid())) EXPECT_EQ(cpus, first) << bind;
    kill(program.pid(), SIGTERM);
    EXPECT_EQ(program.finish().code, 75);
  }
  Program program(trireme_command(train("two", {"--launch.threads", "2", "--run.steps", "1000000"})));
  ASSERT_TRUE(program.wait_for([](const std::string& out) { return out.find("step       5/") != std::string::npos; }))
      << program.output();
  const std::string printed = line_with(program.output(), "rank 0: cores");
  EXPECT_THAT(printed, HasSubstr("2 threads"));
  const auto allowed = allowed_cpus(program.pid());
  for (size_t core = 0; core < 2; ++core) {
    EXPECT_THAT(allowed, ::testing::Contains(format_cpu_list(cores[core])).Times(::testing::Ge(1))) << printed;
  }
  kill(program.pid(), SIGTERM);
  EXPECT_EQ(program.finish().code, 75);
}

TEST_F(Training, ThreadsSpinBrieflyUnlessTheEnvironmentSaysHowTheyWait) {
  const auto environment_of = [&](const std::string& name, const std::vector<std::string>& given) {
    Program program(trireme_command(train(name, {"--run.steps", "1000000"})), given);
    EXPECT_TRUE(program.wait_for([](const std::string& output) { return output.find("| loss") != std::string::npos; }))
        << program.output();
    EXPECT_EQ(read_text(fmt::format("/proc/{}/comm", program.pid())), "trireme\n");
    return read_text(fmt::format("/proc/{}/environ", program.pid()));
  };
  EXPECT_THAT(environment_of("brief", {}), HasSubstr("GOMP_SPINCOUNT=10000"));
  EXPECT_THAT(environment_of("told", {"GOMP_SPINCOUNT=77"}),
              AllOf(HasSubstr("GOMP_SPINCOUNT=77"), Not(HasSubstr("GOMP_SPINCOUNT=10000"))));
  EXPECT_THAT(environment_of("policy", {"OMP_WAIT_POLICY=active"}), Not(HasSubstr("GOMP_SPINCOUNT")));
}

}  // namespace
}  // namespace trireme
