#pragma once
// The evaluations of a fine-tuning run: all of them, which was the best, and whether to go on.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/glue/options.h"
#include "train/glue/results.h"

namespace trireme {

/// What makes one evaluation better than another, in transformers' words.
struct BestRule {
  std::string metric;         ///< of the numbers, with its "eval_"
  bool greater = false;       ///< is better
  int64_t patience = 0;       ///< evaluations in a row that are not better, after which training ends; 0: it does not
  double threshold = 0;       ///< by how much one must be better to count for that
  bool follows_best = false;  ///< a best one is looked for
};
BestRule best_rule(const GlueOptions& options);

class EvaluationHistory {
 public:
  explicit EvaluationHistory(BestRule rule) : rule_(std::move(rule)) {}

  /// An evaluation after `step` steps. True: it is the best so far. Throws Error::usage where the rule's metric is not
  /// among its numbers.
  bool add(int64_t step, double epoch, const NamedNumbers& numbers);
  /// As many evaluations in a row as the rule's patience were not better.
  bool is_patience_over() const { return rule_.patience > 0 && worse_ >= rule_.patience; }
  std::optional<int64_t> best_step() const { return best_step_; }
  std::optional<double> best() const { return best_; }
  const BestRule& rule() const { return rule_; }

  /// trainer_state.json: transformers' keys log_history, best_metric, best_global_step, global_step, epoch.
  std::string text() const;
  /// Takes over the evaluations of an earlier start, up to `step`. Throws Error::data.
  void take(const std::string& text, const std::string& path, int64_t step);

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
