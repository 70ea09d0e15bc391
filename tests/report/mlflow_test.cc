#include "report/sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/time.h"
#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

/// The part of MLflow's API that the sink uses, in memory.
class FakeMlflow {
 public:
  FakeMlflow() {
    const std::string api = "/mlflow/api/2.0/mlflow/";
    server_.Get((api + "experiments/get-by-name").c_str(), [this](const auto& request, auto& response) {
      const std::string name = request.get_param_value("experiment_name");
      answer(request, response, [&]() -> Json {
        if (name != experiment) return nullptr;
        return {{"experiment", {{"experiment_id", "7"}}}};
      });
    });
    server_.Post((api + "experiments/create").c_str(), [this](const auto& request, auto& response) {
      answer(request, response, [&]() -> Json {
        experiment = parse_json(request.body, "body")["name"].template get<std::string>();
        return {{"experiment_id", "7"}};
      });
    });
    server_.Post((api + "runs/create").c_str(), [this](const auto& request, auto& response) {
      answer(request, response, [&]() -> Json {
        created.push_back(parse_json(request.body, "body"));
        return {{"run", {{"info", {{"run_id", "run" + std::to_string(created.size())}}}}}};
      });
    });
    server_.Post((api + "runs/update").c_str(), [this](const auto& request, auto& response) {
      answer(request, response, [&]() -> Json {
        const Json body = parse_json(request.body, "body");
        if (body["run_id"] != "run" + std::to_string(created.size())) return nullptr;
        statuses.push_back(body["status"].template get<std::string>());
        return Json::object();
      });
    });
    server_.Post((api + "runs/log-batch").c_str(), [this](const auto& request, auto& response) {
      answer(request, response, [&]() -> Json {
        const Json body = parse_json(request.body, "body");
        if (body.contains("metrics")) largest = std::max(largest, body["metrics"].size());
        for (const Json& metric : body.value("metrics", Json::array())) metrics.push_back(metric);
        for (const Json& parameter : body.value("params", Json::array())) parameters.push_back(parameter);
        return Json::object();
      });
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~FakeMlflow() {
    server_.stop();
    thread_.join();
  }
  FakeMlflow(const FakeMlflow&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/mlflow/"; }

  std::string experiment;
  std::vector<Json> created, metrics, parameters;
  std::vector<std::string> statuses, authorizations;
  size_t largest = 0;
  std::atomic<size_t> sent = 0;  ///< of an endless answer
  std::atomic<size_t> requests = 0;
  std::atomic<int> failing = 0;  ///< the status of every answer; 0: the right one
  std::atomic<int> sleep_ms = 0;
  std::atomic<bool> endless = false;  ///< every answer goes on until the client closes, at most 1 GB

 private:
  template <class Request, class Response, class Result>
  void answer(const Request& request, Response& response, Result result) {
    std::this_thread::sleep_for(std::chrono::milliseconds(sleep_ms.load()));
    const std::lock_guard lock(mutex_);
    ++requests;
    authorizations.push_back(request.get_header_value("Authorization"));
    if (failing != 0) {
      response.status = failing;
      return response.set_content(R"({"error_code": "X", "message": "out of order"})", "application/json");
    }
    if (endless) {
      return response.set_content_provider("application/json", [this](size_t offset, httplib::DataSink& sink) {
        if (offset > size_t{1} << 30) sink.done();
        sent = offset;
        return sink.write(kBlanks.data(), kBlanks.size());
      });
    }
    const Json json = result();
    if (json.is_null()) response.status = 404;
    response.set_content(json.is_null() ? R"({"error_code": "RESOURCE_DOES_NOT_EXIST"})" : dump_json(json),
                         "application/json");
  }

  const std::string kBlanks = std::string(size_t{1} << 16, ' ');
  httplib::Server server_;
  std::mutex mutex_;
  std::thread thread_;
  int port_ = 0;
};

AttemptStart attempt(int64_t first_step = 0) {
  return {first_step,
          40,
          {{"model", "tiny"}},
          LossUnit::token,
          R"({"optim": {"clip": 1.0, "shard": "none"}, "data": {"test": ""}})"};
}

Metrics metrics_of(int64_t step, double loss) {
  Metrics m;
  m.step = step;
  m.loss = loss;
  return m;
}

class Mlflow : public testing::Test {
 protected:
  MlflowOptions options() const { return {server.url(), "an experiment", "run-a", folder / "mlflow.json", 0.05, 5}; }

  FakeMlflow server;
  TemporaryFolder folder;
  LogLines lines;
};

TEST_F(Mlflow, GetsOptionsFactsNumbersAndTheEnd) {
  {
    const auto sink = make_mlflow_sink(options());
    sink->start(attempt());
    sink->step(metrics_of(10, 2.5));
    sink->evaluation({.step = 10, .train_loss = 2.25, .validation_loss = 2.75, .values = {{"accuracy", 0.5}}});
    sink->step(metrics_of(20, std::numeric_limits<double>::quiet_NaN()));
    sink->finish("done", 40);
  }
  EXPECT_EQ(server.experiment, "an experiment");
  ASSERT_EQ(server.created.size(), 1u);
  EXPECT_EQ(server.created[0]["run_name"], "run-a");
  EXPECT_EQ(server.created[0]["experiment_id"], "7");
  EXPECT_EQ(server.created[0]["tags"][1], (Json{{"key", "trireme.model"}, {"value", "tiny"}}));
  EXPECT_EQ(Json(server.parameters),
            (Json{{{"key", "optim.clip"}, {"value", "1.0"}}, {{"key", "optim.shard"}, {"value", "none"}}}))
      << "empty values are left out";
  std::vector<std::string> shown;
  for (const Json& metric : server.metrics) {
    const auto key = metric["key"].get<std::string>();
    if (key == "loss" || key == "validation_loss" || key == "accuracy")
      shown.push_back(key + " " + dump_json(metric["value"]) + " " + dump_json(metric["step"]));
  }
  EXPECT_THAT(shown,
              testing::ElementsAre("loss 2.5 10", "accuracy 0.5 10", "validation_loss 2.75 10", "loss \"NaN\" 20"));
  EXPECT_THAT(server.statuses, testing::ElementsAre("FINISHED"));
  EXPECT_THAT(lines.text(), HasSubstr("MLflow: run run1 of experiment an experiment at http://127.0.0.1:"));
  EXPECT_THAT(lines.text(), Not(HasSubstr("warning")));
}

TEST_F(Mlflow, AResumedRunContinuesTheServersRun) {
  const auto run = [&](int64_t first_step, const char* state) {
    const auto sink = make_mlflow_sink(options());
    sink->start(attempt(first_step));
    sink->finish(state, 40);
  };
  run(0, "stopped");
  run(20, "done");
  EXPECT_EQ(server.created.size(), 1u);
  EXPECT_THAT(server.statuses, testing::ElementsAre("KILLED", "RUNNING", "FINISHED"));
  run(0, "done");
  EXPECT_EQ(server.created.size(), 2u) << "a new run in the same folder";
}

TEST_F(Mlflow, ARunThatTheServerHasLostIsMadeAgain) {
  write_text(folder / "mlflow.json", R"({"url": ")" + server.url() + R"(", "run_id": "gone"})");
  {
    const auto sink = make_mlflow_sink(options());
    sink->start(attempt(20));
  }
  EXPECT_EQ(server.created.size(), 1u);
  EXPECT_EQ(read_json(folder / "mlflow.json")["run_id"], "run1");
  EXPECT_THAT(server.statuses, testing::ElementsAre("FAILED")) << "it ended without a state";
}

TEST_F(Mlflow, AFaultIsOneWarningAndWhatItMissedIsSentLater) {
  server.failing = 503;
  {
    const auto sink = make_mlflow_sink(options());
    sink->start(attempt());
    for (int64_t step = 1; step <= 300; ++step) sink->step(metrics_of(step, 1));
    const auto begin = Clock::now();
    while (server.requests < 3 && seconds_since(begin) < 20) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    server.failing = 0;
    sink->finish("done", 300);
    while (lines.text().find("answers again") == std::string::npos && seconds_since(begin) < 20)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const std::string text = lines.text();
  EXPECT_THAT(text, HasSubstr("warning: log.mlflow: " + server.url() +
                              ": experiments/get-by-name: status 503: out of order; training continues without it"));
  EXPECT_EQ(text.find("warning"), text.rfind("warning")) << text;
  EXPECT_THAT(text, HasSubstr("answers again\n"));
  EXPECT_EQ(server.metrics.size(), 300u * 12);
  EXPECT_EQ(server.largest, 1000u) << "the API's limit";
}

TEST_F(Mlflow, ASlowServerNeverDelaysAStepAndTheEndOnlySoLong) {
  server.sleep_ms = 1500;
  MlflowOptions slow = options();
  slow.last_seconds = 0.2;
  auto sink = make_mlflow_sink(slow);
  sink->start(attempt());
  const auto begin = Clock::now();
  for (int64_t step = 1; step <= 10000; ++step) sink->step(metrics_of(step, 1));
  sink->finish("done", 10000);
  EXPECT_LT(seconds_since(begin), 2);
  const auto end = Clock::now();
  sink.reset();
  EXPECT_LT(seconds_since(end), 2.5);
  EXPECT_THAT(lines.text(), HasSubstr("120000 numbers of this run were not sent to " + server.url()))
      << "50000 waited, the others were dropped";
  server.sleep_ms = 0;
}

TEST_F(Mlflow, AnAnswerWithoutAnEndIsCutOff) {
  server.endless = true;
  {
    const auto sink = make_mlflow_sink(options());
    sink->start(attempt());
    const auto begin = Clock::now();
    while (lines.text().find("warning") == std::string::npos && seconds_since(begin) < 20)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_THAT(lines.text(), HasSubstr("experiments/get-by-name: the answer is longer than 4 MiB"));
  EXPECT_LT(server.sent, size_t{256} << 20);
}

TEST_F(Mlflow, AServerThatIsNotThereIsOneWarning) {
  MlflowOptions nowhere = options();
  nowhere.url = "http://127.0.0.1:1";
  {
    const auto sink = make_mlflow_sink(nowhere);
    sink->start(attempt());
    sink->step(metrics_of(1, 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  const std::string text = lines.text();
  EXPECT_THAT(text, HasSubstr("warning: log.mlflow: http://127.0.0.1:1: experiments/get-by-name: no answer ("));
  EXPECT_THAT(text, HasSubstr("warning: log.mlflow: 12 numbers of this run were not sent to http://127.0.0.1:1"));
}

TEST_F(Mlflow, SendsTheNameAndPasswordOfTheEnvironment) {
  setenv("MLFLOW_TRACKING_USERNAME", "me", 1);
  setenv("MLFLOW_TRACKING_PASSWORD", "secret", 1);
  {
    const auto sink = make_mlflow_sink(options());
    sink->start(attempt());
  }
  setenv("MLFLOW_TRACKING_TOKEN", "token", 1);
  {
    const auto sink = make_mlflow_sink(options());
    sink->start(attempt());
  }
  for (const char* name : {"USERNAME", "PASSWORD", "TOKEN"}) unsetenv((std::string("MLFLOW_TRACKING_") + name).c_str());
  EXPECT_EQ(server.authorizations.front(), "Basic bWU6c2VjcmV0");
  EXPECT_EQ(server.authorizations.back(), "Bearer token");
}

}  // namespace
}  // namespace trireme
