#pragma once
// The part of a run that does not depend on the members that compute it: progress, weights and moments, folder, report.

#include <memory>

#include "optim/schedule.h"
#include "optim/training_state.h"
#include "report/live/run_board.h"
#include "report/reporter.h"
#include "train/gpu_watch.h"
#include "train/guard/skips.h"
#include "train/meter.h"
#include "train/plan.h"
#include "train/plan_check.h"

namespace trireme {

struct Run {
  /// Allocates the training state, uninitialized. writes: into the run folder, which is this job's. Borrows the plan.
  Run(const RunPlan& plan, bool writes, Device& device = host_device());

  /// Takes over what a snapshot says of its run.
  void resume(const RunCounters& stored);
  /// Starts the report of an attempt from here to the plan's last step.
  void open_report(const RankContext& rank, RunFacts facts, LossUnit unit = LossUnit::token);

  const RunPlan& plan;
  const bool writes;
  const ParameterTable& table;           ///< the plan's
  std::vector<DataFileFact> data_files;  ///< the plan's; a task may add some before training: snapshots record them
  TrainingState state;
  RunCounters progress;
  RateSchedule schedule;
  SkipWatch skips;
  StepMeter meter;
  RunSpeed speed;
  std::shared_ptr<RunBoard> board;     ///< gets the records and the steps' times; may be empty
  std::shared_ptr<GpuWatch> gpu;       ///< of this rank's GPU; empty on all ranks: they compute on CPUs
  std::unique_ptr<Reporter> reporter;  ///< null before open_report()

  const Config& config() const { return plan.config(); }
};

}  // namespace trireme
