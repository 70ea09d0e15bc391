#pragma once
// The evaluations of a fine-tuning run: all of them, the best one, and whether to stop early.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/metrics.h"
#include "train/glue/options.h"
#include "train/glue/results.h"

namespace trireme {

/// What makes one evaluation better than another, named as in transformers.
struct BestRule {
  std::string metric;         ///< with its prefix "eval_"
  bool greater = false;       ///< a greater value is better
  int64_t patience = 0;       ///< training ends after so many evaluations without improvement; 0: never
  double threshold = 0;       ///< smallest improvement that counts for patience
  bool follows_best = false;  ///< track the best evaluation
};
BestRule best_rule(const GlueOptions& options);

class EvaluationHistory {
 public:
  explicit EvaluationHistory(BestRule rule) : rule_(std::move(rule)) {}

  /// Adds an evaluation after `step` steps. True: it is the best so far. Throws Error::usage if it lacks the rule's
  /// metric.
  bool add(int64_t step, double epoch, const NamedNumbers& numbers);
  /// True when the last `patience` evaluations of the rule brought no improvement.
  bool is_patience_over() const { return rule_.patience > 0 && worse_ >= rule_.patience; }
  std::optional<int64_t> best_step() const { return best_step_; }
  std::optional<double> best() const { return best_; }
  const BestRule& rule() const { return rule_; }

  /// trainer_state.json: transformers' keys log_history, best_metric, best_global_step, global_step, epoch. steps: the
  /// records of training, whose epoch is their samples / rows; those up to the last evaluation belong to the history.
  std::string text(const std::vector<Metrics>& steps, int64_t rows) const;
  /// Restores the evaluations of an earlier start, up to `step`. Throws Error::data.
  void restore(const std::string& text, const std::string& path, int64_t step);

 private:
  struct Entry {
    int64_t step;
    double epoch;
    NamedNumbers numbers;
  };

  BestRule rule_;
  std::vector<Entry> entries_;
  std::optional<int64_t> best_step_;
  std::optional<double> best_;
  int64_t worse_ = 0;
};

}  // namespace trireme
