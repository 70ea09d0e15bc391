#pragma once
// Why a Slurm job was queued again, kept beside its run: RUN/slurm-JOB.restarts has a line for each time: 75 to go on
// after a stop with a snapshot, another code after a lost rank, "node" where Slurm took the job back because it lost a
// node. The scripts of `trireme slurm` (cluster/sbatch.h) read and write it, too.

#include <string>

#include "cluster/launch/stop_signals.h"

namespace trireme::launch {

class SlurmRestarts {
 public:
  /// Of the job around this process. run_folder: empty where the command has none.
  explicit SlurmRestarts(const std::string& run_folder);

  /// Whether the job may be queued again after one more loss, `most` of them in all; without a run folder never.
  bool may_follow_loss(int most) const;

  /// Notes `code`, waits longer from loss to loss, and gives the job back to Slurm, which ends this process; returns
  /// when that does not happen, or a signal comes. Throws Error::config outside Slurm, Error::io when Slurm refuses.
  void requeue(int code, const StopSignals& signals) const;

 private:
  int losses() const;

  std::string job_, file_;
};

}  // namespace trireme::launch
