#include "report/trainer_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json.h"

namespace trireme {
namespace {

TEST(TrainerState, HasTheRecordsUpToTheStepInTransformersWords) {
  RunLog log;
  log.total_steps = 40;
  for (const int64_t step : {10, 20, 30}) {
    Metrics m;
    m.step = step;
    m.loss = step == 20 ? std::nan("") : 3;
    m.gradient_norm = 0.5;
    m.learning_rate = 1e-3;
    m.tokens = static_cast<uint64_t>(step) * 100;
    log.steps.push_back(m);
  }
  log.evaluations = {{.step = 10,
                      .train_loss = std::nullopt,
                      .validation_loss = 2.5,
                      .seconds = 1,
                      .epoch = 0.5,
                      .values = {{"accuracy", 0.75}}},
                     {.step = 20, .train_loss = std::nullopt, .validation_loss = 2.75, .seconds = 1, .epoch = 1.0},
                     {.step = 30, .train_loss = std::nullopt, .validation_loss = 1, .seconds = 1, .epoch = 1.5}};
  const Json state = parse_json(trainer_state_json(log, 20), "state");
  EXPECT_EQ(state["global_step"], 20);
  EXPECT_EQ(state["max_steps"], 40);
  EXPECT_EQ(state["best_global_step"], 10) << "the evaluation after step 30 is not of this model";
  EXPECT_EQ(state["best_metric"], 2.5);
  EXPECT_EQ(state["epoch"], 1.0);
  EXPECT_EQ(state["num_input_tokens_seen"], 2000);
  const Json expected = parse_json(
      R"([{"step": 10, "loss": 3.0, "grad_norm": 0.5, "learning_rate": 0.001},
          {"step": 10, "epoch": 0.5, "eval_loss": 2.5, "eval_accuracy": 0.75, "eval_runtime": 1.0},
          {"step": 20, "grad_norm": 0.5, "learning_rate": 0.001},
          {"step": 20, "epoch": 1.0, "eval_loss": 2.75, "eval_runtime": 1.0}])",
      "expected");
  EXPECT_EQ(state["log_history"], expected);
}

TEST(TrainerState, OfARunWithoutRecordsIsEmpty) {
  const Json state = parse_json(trainer_state_json({}, 0), "state");
  EXPECT_EQ(state["log_history"], Json::array());
  EXPECT_TRUE(state["best_metric"].is_null());
}

}  // namespace
}  // namespace trireme
