#pragma once
// RUN/attempts.jsonl: when the run's attempts began, and on how many hosts.

#include <string>
#include <vector>

namespace trireme {

struct AttemptRecord {
  double time = 0;  ///< Unix seconds
  int hosts = 0, ranks = 0;
};

/// Appends one. A folder that cannot take it gives a warning.
void record_attempt(const std::string& run_dir, const AttemptRecord& attempt);
/// In their order; without lines that are not records (a killed process leaves at most one). None: no such file.
std::vector<AttemptRecord> read_attempts(const std::string& run_dir);

}  // namespace trireme
