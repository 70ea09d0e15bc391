// What monitoring systems read of a run while it trains.

#include <gmock/gmock.h>
#include <httplib.h>

#include <regex>

#include "tests/runs/training_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class LiveMetricsOfRuns : public TrainingFixture {
 protected:
  /// The port that the program says it listens on.
  static int port_of(Program& program) {
    const std::regex line("live page at http://127\\.0\\.0\\.1:([0-9]+)/, metrics for");
    std::smatch match;
    std::string output;
    EXPECT_TRUE(program.wait_for([&](const std::string& out) {
      output = out;
      return std::regex_search(output, match, line);
    })) << program.output();
    return match.empty() ? 0 : std::stoi(match[1]);
  }
};

TEST_F(LiveMetricsOfRuns, AScrapeShowsEveryRank) {
  const int ranks = mpirun_path().empty() ? 1 : 2;
  const auto words =
      train("run", {"--run.steps", "100000", "--log.metrics", "0", "--log.metrics-file", path("x.prom")});
  Program program(ranks == 1 ? trireme_command(words) : mpirun_command(ranks, words));
  const int port = port_of(program);
  ASSERT_TRUE(program.wait_for([](const std::string& out) { return out.find("step      5/") != std::string::npos; }))
      << program.output();
  httplib::Client client("127.0.0.1", port);
  client.set_read_timeout(60, 0);
  const auto answer = client.Get("/metrics");
  ASSERT_TRUE(answer);
  for (const std::string& text : {answer->body, read_text(path("x.prom"))}) {
    EXPECT_THAT(text, HasSubstr("trireme_ranks{run=\"run\"} " + std::to_string(ranks) + "\n"));
    EXPECT_THAT(text, HasSubstr("trireme_target_steps{run=\"run\"} 100000\n"));
    EXPECT_THAT(text, HasSubstr("trireme_run_info{run=\"run\",model="));
  }
  EXPECT_THAT(answer->body, HasSubstr("trireme_loss{run=\"run\"} "));
  EXPECT_THAT(answer->body, HasSubstr("trireme_step_duration_seconds_count{run=\"run\"} "));
  for (int rank = 0; rank < ranks; ++rank)
    EXPECT_THAT(answer->body, HasSubstr("trireme_rank_up{run=\"run\",rank=\"" + std::to_string(rank) + "\",host="));
  const auto page = client.Get("/");
  ASSERT_TRUE(page);
  EXPECT_THAT(page->body, HasSubstr("<title>run</title>"));
  EXPECT_THAT(client.Get("/body")->body, HasSubstr("<td>0</td><td>"));
  kill(ranks == 1 ? program.pid() : first_rank_of(program), SIGTERM);
  EXPECT_EQ(program.finish().code, 75);
  EXPECT_THAT(read_text(path("x.prom")), HasSubstr("trireme_running{run=\"run\"} 0\n"));
}

TEST_F(LiveMetricsOfRuns, AFinishedRunIsShown) {
  ASSERT_EQ(run(trireme_command(train("run", {}))).code, 0);
  Program program(trireme_command({"status", path("run"), "--page", "0"}));
  std::smatch match;
  std::string output;
  const std::regex line("at http://127\\.0\\.0\\.1:([0-9]+)/");
  ASSERT_TRUE(program.wait_for([&](const std::string& out) {
    output = out;
    return std::regex_search(output, match, line);
  })) << program.output();
  httplib::Client client("127.0.0.1", std::stoi(match[1]));
  client.set_read_timeout(60, 0);
  const auto page = client.Get("/");
  ASSERT_TRUE(page);
  EXPECT_THAT(page->body, HasSubstr("<p>Ended at step 20 of 20</p>"));
  EXPECT_THAT(client.Get("/metrics")->body, HasSubstr("trireme_step_total{run=\"run\"} 20\n"));
  // A file that is gone, or not a log, leaves what was shown.
  for (const char* text : {"", "no log\n"}) {
    std::filesystem::remove(path("run/metrics.jsonl"));
    if (*text != 0) write_text(path("run/metrics.jsonl"), text);
    EXPECT_TRUE(
        program.wait_for([&](const std::string& out) { return out.find("still shows what it had") != out.npos; }));
    EXPECT_THAT(client.Get("/")->body, HasSubstr("<p>Ended at step 20 of 20</p>"));
  }
  kill(program.pid(), SIGINT);
  EXPECT_EQ(program.finish().code, 0);

  const auto refused = [&](const std::vector<std::string>& flags, const std::string& message) {
    std::vector<std::string> words = {"status", path("run")};
    words.insert(words.end(), flags.begin(), flags.end());
    const Outcome outcome = trireme::run(trireme_command(words));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.output, HasSubstr(message));
  };
  refused({"--page", "x"}, "--page is \"x\", expected a port like 8080");
  refused({"--page", "0.0.0.0:8080"}, "can be reached from other hosts; name a file with a token");
  refused({"--token", "x"}, "--token x has no effect without --page");
}

TEST_F(LiveMetricsOfRuns, APortInUseIsAWarning) {
  httplib::Server other;
  const int port = other.bind_to_any_port("127.0.0.1");
  const Outcome outcome = run(trireme_command(train("run", {"--log.metrics", std::to_string(port)})));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("log.metrics: cannot listen on 127.0.0.1:" + std::to_string(port)));
  EXPECT_THAT(outcome.output, HasSubstr("training continues without it"));
}

TEST_F(LiveMetricsOfRuns, WhatCannotBeMeantIsRefused) {
  const auto refused = [&](const std::vector<std::string>& flags, const std::string& message) {
    const Outcome outcome = run(trireme_command(train("run", flags)));
    EXPECT_NE(outcome.code, 0);
    EXPECT_THAT(outcome.output, HasSubstr(message));
  };
  refused({"--log.metrics", "here"},
          "log.metrics (flag --log.metrics) is \"here\", expected a port like 9464, or ADDRESS:PORT like 0.0.0.0:9464 "
          "or [::]:9464");
  refused({"--log.metrics", "0.0.0.0:9464"},
          "log.metrics (flag --log.metrics) is 0.0.0.0:9464, which other hosts can reach; name a file with a token "
          "that they have to send "
          "by --log.metrics-token, or set --log.metrics 9464 for this host only");
  refused(
      {"--log.metrics-token", "x"},
      "log.metrics-token (flag --log.metrics-token) is x, but nothing is served; set --log.metrics PORT, or remove it");
  refused({"--log.metrics", "0", "--log.metrics-token", "/nonexistent"}, "/nonexistent");
}

}  // namespace
}  // namespace trireme
