#pragma once
// What is trained, as the loop meets it: pre-training (train/pretraining.cc) and fine-tuning on GLUE
// (train/glue/finetune.cc) differ in this and in what they add to the start (train/start/recipe.h).

#include "report/metrics.h"
#include "train/peak.h"
#include "train/run.h"
#include "train/saver.h"
#include "train/session.h"
#include "train/step_batches.h"

namespace trireme {

/// A run at work: everything that a task may look at and change.
struct Work {
  Run& run;
  Session& session;
  Saver* saver;  ///< none when only evaluating
};

/// What is to be done after a step, beside what the configuration asks of every run.
struct Due {
  bool report = false, evaluation = false, snapshot = false;
};

/// One step's work over all ranks, for rates.
struct StepCost {
  double tokens = 0, flops = 0, samples = 0;
};

class Task {
 public:
  virtual ~Task() = default;
  /// This rank's micro-batches.
  virtual StepBatches& batches() = 0;
  /// Samples of the step that begins after `consumed`, over all ranks.
  virtual int64_t step_samples(uint64_t consumed) const = 0;
  /// Tokens of the first `samples` samples, and what a step costs: on average where lengths differ.
  virtual uint64_t tokens(uint64_t samples) const = 0;
  virtual StepCost step_cost() const = 0;
  /// Files that are read while the run goes on.
  virtual const std::vector<DataFileFact>& mapped_files() const = 0;
  /// The report's head.
  virtual RunFacts facts(const Work& work, const PeakRate& peak) const = 0;

  virtual LossUnit loss_unit() const { return LossUnit::token; }
  virtual bool evaluates_first() const = 0;           ///< before step 1
  virtual bool evaluates_last() const = 0;            ///< after the last step
  virtual bool saves_first() const { return false; }  ///< a snapshot before the first step
  virtual bool saves_last() const = 0;                ///< a run that was not stopped ends with a snapshot
  virtual Due due(const RunCounters& progress) const = 0;
  /// Collective. False: a stop was asked for meanwhile.
  virtual bool evaluate(Work& work) = 0;
  /// Collective, after the last evaluation: what is measured once, at the end. False as above.
  virtual bool test(Work&) { return true; }
  /// Training ends here, before its last step; the same on every rank.
  virtual bool is_finished() const { return false; }
  /// After each step that was accounted for.
  virtual void step_done(const StepResult& result) = 0;
};

}  // namespace trireme
