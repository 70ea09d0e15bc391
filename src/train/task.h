#pragma once
// The interface between the loop and what it trains: pre-training (train/pretraining) and fine-tuning on GLUE
// (train/glue/finetune.cc) differ in this and in their part of the start (train/start/recipe.h).

#include <functional>

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

/// The work of one step over all ranks, for rates.
struct StepCost {
  double tokens = 0, flops = 0, samples = 0;
};

class Task {
 public:
  virtual ~Task() = default;
  /// This rank's micro-batches.
  virtual StepBatches& batches() = 0;
  /// Tokens of the first `samples` samples; work of a step, on average if lengths differ.
  virtual uint64_t tokens(uint64_t samples) const = 0;
  virtual StepCost step_cost() const = 0;
  /// Files that are read during the run.
  virtual const std::vector<DataFileFact>& mapped_files() const = 0;
  /// The head of the report.
  virtual RunFacts facts(const Work& work, const PeakRate& peak) const = 0;

  virtual LossUnit loss_unit() const { return LossUnit::token; }
  virtual bool evaluates_first() const = 0;           ///< before step 1
  virtual bool evaluates_last() const = 0;            ///< after the last step
  virtual bool saves_first() const { return false; }  ///< a snapshot before the first step
  virtual bool saves_last() const = 0;                ///< save a snapshot after the last step, unless stopped
  virtual Due due(const RunCounters& progress) const = 0;
  /// Collective. False: a stop was requested meanwhile.
  virtual bool evaluate(Work& work) = 0;
  /// Collective, after the last evaluation: measures what is measured once at the end. False as above.
  virtual bool test(Work&) { return true; }
  /// True: training ends early, here; the same on every rank.
  virtual bool is_finished() const { return false; }
  /// Collective, with each report: the task's measures, over the steps since the last call.
  virtual NamedValues measures(Work&) { return {}; }
  /// Called after each counted step.
  virtual void step_done(const StepResult& result) = 0;
};

}  // namespace trireme
