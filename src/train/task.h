#pragma once
// The interface between the loop and what it trains. A task is values and a few functions: what it takes its batches
// from, what is measured of it and when, and how it is reported.

#include <functional>
#include <memory>
#include <vector>

#include "report/metrics.h"
#include "train/peak.h"
#include "train/run.h"
#include "train/saver.h"
#include "train/session.h"
#include "train/step_batches.h"

namespace trireme {

/// A running training: everything that a task may read and change.
struct Work {
  Run& run;
  Session& session;
  Saver* saver;                   ///< null when only evaluating
  bool keeps_snapshots = true;    ///< false: not all ranks see the run folder
  std::function<void()> began{};  ///< called once training has a report; may be empty
};

/// What to do after a step, beside what the configuration asks for.
struct Due {
  bool report = false, evaluation = false, snapshot = false;
};

/// The work of one step over all ranks, for rates; on average if lengths differ.
struct StepCost {
  double tokens = 0, flops = 0, samples = 0;
};

/// Functions that get the work are collective; those that return a bool return false if a stop was requested meanwhile.
struct Task {
  std::unique_ptr<StepBatches> batches;  ///< this rank's micro-batches
  LossUnit unit = LossUnit::token;
  StepCost cost;
  std::function<uint64_t(uint64_t samples)> tokens;     ///< of the first `samples` samples
  std::vector<DataFileFact> mapped_files;               ///< that are read during the run
  std::function<RunFacts(const PeakRate& peak)> facts;  ///< the head of the report

  bool evaluates_first = false;  ///< before step 1
  bool evaluates_last = false;   ///< after the last step
  bool saves_first = false;      ///< a snapshot before the first step
  bool saves_last = true;        ///< a snapshot after the last step, unless stopped
  std::function<Due(const RunCounters&)> due;
  std::function<bool(Work&)> evaluate;
  // Each of these may be empty.
  std::function<double(uint64_t samples)> epoch;  ///< epochs that are done after the first `samples` samples
  std::function<bool(Work&)> test;             ///< after the last evaluation: measures what is measured once at the end
  std::function<bool()> is_finished;           ///< true: training ends early, here; the same on every rank
  std::function<NamedValues(Work&)> measures;  ///< with each report, over the steps since the last call
  std::function<void(const StepResult&)> step_done;  ///< after each counted step
};

/// By log.every, evaluation.every, checkpoint.every and the plan's extra snapshots.
Due due_by_options(const RunPlan& plan, const RunCounters& progress);

/// Whether evaluation.patience ends the run: no evaluation since the best one has had a lower validation loss. Says so.
bool is_patience_over(const Run& run);

/// An evaluation of the current weights, whose losses and seconds are known: notes whether it is the best, marks it for
/// a snapshot, and reports it.
void record_evaluation(Work& work, EvaluationMetrics metrics);

}  // namespace trireme
