#pragma once
// Why a Slurm job was requeued, recorded beside its run: RUN/slurm-JOB.restarts has one line per restart: 75 after a
// stop with a snapshot, another code after a lost rank, "node" if Slurm requeued the job after losing a node. The
// scripts of `trireme slurm` (cluster/sbatch.h) read and write it, too.

#include <string>

#include "cluster/launch/stop_signals.h"

namespace trireme::launch {

class SlurmRestarts {
 public:
  /// For the current job. run_folder: empty if the command has none.
  explicit SlurmRestarts(const std::string& run_folder);

  /// Whether the job may be requeued after one more loss, with at most `most` in total; never without a run folder.
  bool may_follow_loss(int most) const;

  /// Records `code`, waits longer with each loss, and requeues the job, for which Slurm ends this process; returns if
  /// that does not happen, or on a signal. Throws Error::config outside Slurm, Error::io if Slurm refuses.
  void requeue(int code, const StopSignals& signals) const;

 private:
  int losses() const;

  std::string job_, file_;
};

}  // namespace trireme::launch
