#pragma once
// Steps that were skipped because their loss or gradients were not finite or their loss was a spike, and the samples
// that they stumbled over.

#include <cstdint>
#include <string>
#include <vector>

#include "comm/scalars.h"

namespace trireme {

struct SkippedStep {
  int64_t step = 0;                            ///< counted from 1
  uint64_t first_sample = 0, last_sample = 0;  ///< global sample indices of its batch
  double loss = 0, norm = 0;
  bool finite = false;  ///< else it was a spike above `limit`
  double limit = 0;
};

class SkipWatch {
 public:
  /// A run stops after `most` skips in a row.
  SkipWatch(std::string run_dir, int64_t most) : run_dir_(std::move(run_dir)), most_(most) {}

  void add(const SkippedStep& step);
  /// A step was not skipped.
  void reset() { steps_.clear(); }
  /// Collective. `in_a_row` counts earlier attempts too. After too many writes RUN/bad-samples.json, an array of {step,
  /// first_sample, last_sample, loss, norm} with numbers that are not finite as texts, and throws Error::numeric.
  void check(int64_t in_a_row, Scalars& scalars) const;

 private:
  std::string run_dir_;
  int64_t most_;
  std::vector<SkippedStep> steps_;  ///< in a row, of this attempt
};

}  // namespace trireme
