#pragma once
// Batch scripts for Slurm: one that starts the ranks with srun, or one that hands over to `trireme launch`.

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct BatchJob {
  std::string name = "trireme", partition, account, reservation, constraint;
  std::string nodelist, exclude, qos, dependency, mail_type, mail_user;
  std::vector<std::string> lines;  ///< options of sbatch as they are: "--comment=x"
  bool preflight = false;          ///< `trireme launch` looks at the nodes before the ranks start
  std::string health;              ///< NHC configuration that the nodes must pass then
  std::string time;                ///< Slurm's form: minutes, or [days-]hours:minutes:seconds; empty: the partition's
  std::string memory;              ///< per node: 0 is all, 64G; empty: the partition's
  std::string output = "slurm-%j.out";
  std::string cpu_bind;  ///< srun's: cores, none, mask_cpu:ff,ff00; empty: none, Trireme binds by itself
  std::string container, container_mounts;  ///< of pyxis: an image that enroot knows
  std::string starter = "srun";             ///< srun or mpirun
  std::string mpi = "pmix";                 ///< srun's plug-in
  int nodes = 1, tasks_per_node = 1, cpus_per_task = 0, gpus_per_node = 0;
  int warning_seconds = 180;  ///< before the time limit ranks are asked to stop and save
  bool exclusive = false, requeue = true;
  int max_restarts = 3;                ///< after a lost rank or node; a stop before the time limit is not counted
  std::vector<std::string> variables;  ///< NAME=VALUE
  std::string program;                 ///< path of trireme on the nodes
  std::vector<std::string> command;    ///< train config.yaml ...
  std::string run_folder;              ///< whose status.json says whether a stopped job stays so; empty: none does
};

/// Seconds of a time limit in Slurm's forms: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes
/// [:seconds]]. Throws Error::usage for another form.
int64_t slurm_seconds(const std::string& time);

/// The script. With srun Slurm warns the steps (--signal=USR1@N) and the script queues the job again when it ends with
/// code 75, unless it was stopped by `trireme stop`, and where the command has a run folder after a lost rank (76, or a
/// death by signal); with mpirun it warns the batch shell (B:), which `trireme launch` has become and which does all of
/// that. A job that Slurm itself queued again after a lost node counts as a loss, too (launch/slurm_restarts.h). Throws
/// Error::usage for a value that Slurm would refuse: a time or mask of another form, a container with mpirun, a line
/// break in a value, a time limit that is not longer than the warning.
std::string batch_script(const BatchJob& job);

}  // namespace trireme
