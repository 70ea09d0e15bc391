#pragma once
// Runs the checks of a GPU, or of the GPUs of a job with one per rank.

#include <functional>
#include <string>
#include <vector>

#include "bench/device/checks.h"

namespace trireme::device_check {

struct Options {
  std::string preset = "gpt2-124m";
  int64_t batch = 1, sequence = 256, steps = 50;
  bool quick = false;                  ///< sizes of a tiny model; the others are not read
  std::vector<std::string> only = {};  ///< names of checks; empty: all
};

/// The names of the checks, in their order.
std::vector<std::string> check_names();
/// Throws Error::usage for a check that does not exist and for a sequence that the preset has no positions for.
void validate(const Options& options);

/// Collective: each rank checks its own GPU, then all check their links. program: version and commit. print: lines for
/// who waits, on the first rank, whose result is the one to show. Throws Error::usage if a rank's GPU cannot be used or
/// two ranks have the same.
Report check_device(const Options& options, const RankContext& rank, const std::string& program,
                    const std::function<void(const std::string&)>& print);

}  // namespace trireme::device_check
