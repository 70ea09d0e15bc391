#pragma once
// One self-contained page that compares runs: no scripts, no external files; light or dark like the reader's system.

#include <string>
#include <vector>

#include "report/run_log.h"

namespace trireme {

/// More could not be distinguished by their lines.
constexpr size_t kMostCompared = 16;

/// A run of the comparison.
struct ComparedRun {
  std::string name;  ///< differs from the other runs'
  RunLog log;        ///< thinned, if it is long (RunHistory)
};

/// Curves over each other, by step, tokens or running time; results side by side; the options and facts that differ.
/// At least one and at most kMostCompared runs.
std::string render_comparison(const std::vector<ComparedRun>& runs);

}  // namespace trireme
