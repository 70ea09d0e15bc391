#include "train/glue/history.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "report/trainer_state.h"

namespace trireme {
namespace {

double value_of(const Number& number) {
  if (const auto* count = std::get_if<int64_t>(&number)) return static_cast<double>(*count);
  return std::get<double>(number);
}

double metric_of(const NamedNumbers& numbers, const std::string& metric) {
  std::vector<std::string> names;
  for (const auto& [name, value] : numbers) {
    if (name == metric) return value_of(value);
    names.push_back(name);
  }
  fail(ErrorKind::usage, "--metric-for-best-model {} is not a metric of this evaluation; choose one of {}", metric,
       fmt::join(names, ", "));
}

}  // namespace

BestRule best_rule(const GlueOptions& options) {
  BestRule rule;
  rule.follows_best = options.config().checkpoint.best || options.saving.strategy == Strategy::best ||
                      options.patience > 0 || !options.best_metric.empty();
  const std::string name = options.best_metric.empty() ? "loss" : options.best_metric;
  rule.metric = name.starts_with("eval_") ? name : "eval_" + name;
  rule.greater = options.greater_is_better.value_or(!name.ends_with("loss"));
  rule.patience = options.patience;
  rule.threshold = options.patience_threshold;
  return rule;
}

bool EvaluationHistory::add(int64_t step, double epoch, const NamedNumbers& numbers) {
  if (!entries_.empty() && entries_.back().step == step) {  // this start had no steps left to train
    entries_.back().numbers = numbers;
    return best_step_ == step;
  }
  entries_.push_back({step, epoch, numbers});
  if (!rule_.follows_best) return false;
  const double value = metric_of(numbers, rule_.metric);
  const bool better = !std::isnan(value) && (!best_ || (rule_.greater ? value > *best_ : value < *best_));
  worse_ = better && (!best_ || std::abs(value - *best_) > rule_.threshold) ? 0 : worse_ + 1;
  if (better) best_ = value, best_step_ = step;
  return better;
}

std::string EvaluationHistory::text(const std::vector<Metrics>& steps, int64_t rows) const {
  Json state;
  state["best_global_step"] = best_step_ ? Json(*best_step_) : Json(nullptr);
  state["best_metric"] = best_ ? Json(*best_) : Json(nullptr);
  state["global_step"] = entries_.empty() ? 0 : entries_.back().step;
  state["epoch"] = entries_.empty() ? 0.0 : entries_.back().epoch;
  state["log_history"] = Json::array();
  auto trained = steps.begin();
  for (const Entry& entry : entries_) {
    for (; trained != steps.end() && trained->step <= entry.step; ++trained) {  // an evaluation follows its step
      Json line = training_entry(*trained);
      line["epoch"] = static_cast<double>(trained->samples) / static_cast<double>(rows);
      state["log_history"].push_back(std::move(line));
    }
    Json line{{"epoch", entry.epoch}, {"step", entry.step}};
    for (const auto& [name, value] : entry.numbers) {
      if (const auto* count = std::get_if<int64_t>(&value))
        line[name] = *count;
      else
        line[name] = std::get<double>(value);
    }
    state["log_history"].push_back(std::move(line));
  }
  return dump_json(state, 2) + "\n";
}

void EvaluationHistory::restore(const std::string& text, const std::string& path, int64_t step) {
  const Json state = parse_json(text, path);
  require(state.is_object() && state.contains("log_history") && state["log_history"].is_array(), ErrorKind::data,
          "{}: \"log_history\" is missing; remove the file to resume without the earlier evaluations", path);
  for (const Json& line : state["log_history"]) {
    if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer()) continue;
    const auto at = line["step"].get<int64_t>();
    if (at > step) continue;
    NamedNumbers numbers;
    for (const auto& [name, value] : line.items()) {
      if (!name.starts_with("eval_")) continue;
      if (value.is_number_integer())
        numbers.emplace_back(name, value.get<int64_t>());
      else
        numbers.emplace_back(name, value.is_number() ? value.get<double>() : std::nan(""));
    }
    if (numbers.empty()) continue;
    add(at, line.value("epoch", 0.0), numbers);
  }
}

}  // namespace trireme
