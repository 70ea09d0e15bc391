#pragma once
// The time of a step as planned with this machine's own rates, beside the time that steps took.

#include <array>
#include <cstddef>
#include <string>

#include "plan/step_time.h"

namespace trireme {

/// What a rank computed in a step, or on average in several.
struct StepRows {
  double micro_batches = 0, rows = 0;
  double squares = 0;  ///< of the rows of each sequence, added up: the pairs of rows that attention may see
  double counted = 0;  ///< rows that go through the head
};

/// The times of the last steps; adding one allocates nothing.
class RecentSteps {
 public:
  void add(double seconds, double waiting, const StepRows& rows = {});
  size_t count() const { return count_; }
  /// Medians of the last 101 steps or fewer; 0 before the first.
  double seconds() const { return median(seconds_); }
  double waiting() const { return median(waiting_); }
  /// Means of the same, without a run's first step, which touches memory for the first time. For steps of other sizes.
  double mean_seconds() const { return mean(seconds_); }
  double mean_waiting() const { return mean(waiting_); }
  StepRows mean_rows() const;

 private:
  static constexpr size_t kKept = 101;
  double median(const std::array<double, kKept>& values) const;
  double mean(const std::array<double, kKept>& values) const;
  std::array<double, kKept> seconds_{}, waiting_{}, micro_batches_{}, rows_{}, squares_{}, counted_{};
  size_t count_ = 0;
};

/// What a run knows of its speed at its end.
struct RunSpeed {
  RecentSteps steps;
  double trained_seconds = 0;  ///< of all steps
  double peak_flops = 0;       ///< of a rank
  double used_by_others = 0;   ///< share of the processors while the peak was measured
};

struct SeenSteps {
  double seconds = 0;          ///< of a step, waiting included
  double waiting = 0;          ///< for other ranks
  double others = 0;           ///< share of the processors that other programs used at the start
  bool unknown_links = false;  ///< then the plan lacks what messages between hosts or GPUs take
  double rows = 0;             ///< of a step, on average, where steps differ; 0: all are equal
};

/// "step: 1.250 s planned with the rates of this machine (products 1.000 s, passes 0.250 s), 1.300 s measured (+4.0
/// %)", "step of 812 tokens on average: ..."; from a difference of 10 % on also its likely cause. Pure.
std::string compare_with_plan(const PlannedTime& plan, const SeenSteps& seen);

}  // namespace trireme
