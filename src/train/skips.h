#pragma once
// Which samples a run stumbled over.

#include <cstdint>
#include <span>
#include <string>

namespace trireme {

/// A step that was skipped because its loss or gradients were not finite.
struct SkippedStep {
  int64_t step = 0;                            ///< counted from 1
  uint64_t first_sample = 0, last_sample = 0;  ///< global sample indices of its batch
  double loss = 0, norm = 0;
};

/// Writes RUN/bad-samples.json, an array of {step, first_sample, last_sample, loss, norm}; numbers that are not finite
/// are texts. Returns "; see PATH" for a message. A folder that cannot be written gives a warning and "".
std::string write_skips(const std::string& run_dir, std::span<const SkippedStep> skips);

}  // namespace trireme
