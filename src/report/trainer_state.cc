#include "report/trainer_state.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json_text.h"

namespace trireme {
namespace {

void put(Json& entry, const std::string& name, double value) {
  if (std::isfinite(value)) entry[name] = value;
}

Json entry_of(const EvaluationMetrics& m) {
  Json entry{{"step", m.step}};
  if (m.epoch) put(entry, "epoch", *m.epoch);
  if (m.validation_loss) put(entry, "eval_loss", *m.validation_loss);
  for (const auto& [name, value] : m.values) put(entry, "eval_" + name, value);
  put(entry, "eval_runtime", m.seconds);
  return entry;
}

}  // namespace

Json training_entry(const Metrics& m) {
  Json entry{{"step", m.step}};
  put(entry, "loss", m.loss);
  put(entry, "grad_norm", m.gradient_norm);
  put(entry, "learning_rate", m.learning_rate);
  for (const auto& [name, value] : m.values) put(entry, name, value);
  return entry;
}

std::string trainer_state_json(const RunLog& log, int64_t step) {
  std::vector<Json> history;
  for (const Metrics& m : log.steps) {
    if (m.step <= step) history.push_back(training_entry(m));
  }
  const EvaluationMetrics *best = nullptr, *last = nullptr;
  for (const EvaluationMetrics& m : log.evaluations) {
    if (m.step > step) continue;
    history.push_back(entry_of(m));
    last = &m;
    if (m.validation_loss && (!best || *m.validation_loss < *best->validation_loss)) best = &m;
  }
  // As transformers writes them: an evaluation after the step that it follows.
  std::ranges::stable_sort(history, {}, [](const Json& entry) { return entry["step"].get<int64_t>(); });
  uint64_t tokens = 0;
  for (const Metrics& m : log.steps) {
    if (m.step <= step) tokens = m.tokens;
  }
  Json state{{"best_global_step", best ? Json(best->step) : Json(nullptr)},
             {"best_metric", best ? Json(*best->validation_loss) : Json(nullptr)},
             {"best_model_checkpoint", nullptr},
             {"epoch", last && last->epoch ? Json(*last->epoch) : Json(nullptr)},
             {"global_step", step},
             {"is_hyper_param_search", false},
             {"is_local_process_zero", true},
             {"is_world_process_zero", true},
             {"max_steps", log.total_steps},
             {"num_input_tokens_seen", tokens},
             {"log_history", history}};
  return dump_json(state, 2) + "\n";
}

}  // namespace trireme
