#pragma once
// Reads metrics.jsonl: a run's records over all its attempts.

#include <string>
#include <vector>

#include "report/metrics.h"

namespace trireme {

/// One attempt: the process started after `first_step` steps and reported `state` at its end (empty: it did not).
struct AttemptLog {
  int64_t first_step = 0;
  int64_t last_step = 0;          ///< newest step in its records
  double started = 0, ended = 0;  ///< Unix seconds of its first and last record
  std::string state;
};

struct RunLog {
  std::vector<Metrics> steps;  ///< ascending step; a non-finite number is NaN
  std::vector<EvaluationMetrics> evaluations;
  std::vector<TestMetrics> tests;
  std::vector<CheckpointEvent> checkpoints;
  std::vector<SampleText> samples;
  std::vector<AttemptLog> attempts;
  RunFacts facts;          ///< of the last attempt
  RunFacts configuration;  ///< of the last attempt: ("optim.clip", "1"); empty in logs of older versions
  RunFacts origins;        ///< of its options that have one: ("optim.clip", "flag --optim.clip"); likewise
  LossUnit unit = LossUnit::token;
  int64_t total_steps = 0;  ///< step at which the run ends
  size_t bad_lines = 0;     ///< lines that are not records (a killed process leaves at most one)
};

/// AttemptStart::configuration as RunLog::configuration.
RunFacts options_of(const std::string& configuration);

/// Median of the records' tokens per second; 0 without records.
double median_speed(const std::vector<Metrics>& steps);
/// Seconds from the first to the last record, of all attempts together.
double seconds_run(const RunLog& log);

/// That of the lowest validation loss, the first of equal ones; nullptr: none has a loss that is a number.
const EvaluationMetrics* best_evaluation(const RunLog& log);

/// Reads the file and its older ones. Drops records of steps that a later attempt repeated. Throws Error::io if it
/// cannot be read, Error::data if it has no records.
RunLog read_run_log(const std::string& path);

}  // namespace trireme
