#pragma once
// The training loop: steps, reports, evaluations, snapshots, until the last step or a stop request. The same for every
// task.

#include <functional>

#include "ops/backend.h"
#include "train/guard/contention.h"
#include "train/guard/data_guard.h"
#include "train/guard/data_proof.h"
#include "train/guard/straggler.h"
#include "train/peak.h"
#include "train/profile.h"
#include "train/step.h"
#include "train/task.h"

namespace trireme {

class Trainer {
 public:
  /// Collective: measures the members' peak rate and opens the report. Borrows the run, the session and the
  /// saver. stop_reason: why a stop was
  /// requested on this rank, or "" if unknown.
  Trainer(Work work, Task task, std::function<std::string()> stop_reason);

  /// Trains to the plan's last step, then evaluates and saves as the task asks. False: a stop was requested, and the
  /// steps done are saved. Throws the error that ends a run.
  bool train();
  /// Evaluates and ends the report. False: a stop was requested meanwhile.
  bool evaluate_only();

 private:
  RunCounters& progress() { return work_.run.progress; }
  const Config& config() const { return work_.run.config(); }
  Scalars& scalars() { return work_.session.scalars(); }
  const RankContext& rank() const { return work_.session.rank(); }
  bool done() { return progress().step >= config().run.steps; }
  bool due(int64_t every) { return every > 0 && progress().step % every == 0; }

  void open_report();
  /// A step and everything that is due after it. True: a stop was requested on some rank.
  bool advance();
  StepResult step(double rate);
  void account(const StepResult& result, double limit);
  void check_ranks();
  void report(const StepResult& result, double rate);
  void show_profile();
  bool roll_back();
  bool evaluate();
  void test();
  void save();
  void publish();
  void publish_written();
  void publish_copied();
  void finish_copies();
  void log_processor_time(const CpuTimes& start);
  void end(bool stopped);

  Work work_;
  Task task_;
  std::function<std::string()> stop_reason_;
  TrainStep step_;
  StepProfile profile_;
  PeakRate peak_;
  StragglerWatch straggler_;
  ContentionWatch contention_;
  DataGuard data_guard_;
  DataWindows data_windows_;
  int64_t evaluated_step_ = -1;
  int64_t rolled_back_ = 0;  ///< times since the newest snapshot
};

}  // namespace trireme
