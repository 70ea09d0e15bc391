#pragma once
// Batch scripts for Slurm: they start the ranks with srun, or run `trireme launch`.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct BatchJob {
  std::string name = "trireme", partition, account, reservation, constraint;
  std::string nodelist, exclude, qos, dependency, mail_type, mail_user;
  std::vector<std::string> lines;  ///< options of sbatch, unchanged: "--comment=x"
  bool preflight = false;          ///< `trireme launch` checks the nodes before the ranks start
  std::string health;              ///< NHC configuration that the nodes must pass
  std::string time;                ///< Slurm's form: minutes, or [days-]hours:minutes:seconds; empty: the partition's
  std::string memory;              ///< per node: 0 is all, 64G; empty: the partition's
  std::string output = "slurm-%j.out";
  std::string cpu_bind;          ///< for srun: cores, none, mask_cpu:ff,ff00; empty: none, Trireme binds by itself
  std::string container;         ///< for pyxis: an image of enroot, in which trireme is in PATH; empty: none
  std::string container_mounts;  ///< OUTSIDE:INSIDE,...; empty: `folder` at the same place
  std::string folder;            ///< in which the command starts
  std::string starter = "srun";  ///< srun or mpirun
  std::string mpi = "pmix";      ///< plug-in of srun
  int nodes = 1, tasks_per_node = 1, cpus_per_task = 0;
  std::string gpus_per_node;  ///< Slurm's form: 8, a100:8; empty: none
  std::string gres;           ///< generic resources of each node: gpu:a100:8,nvme:1; empty: none
  int warning_seconds = 180;  ///< ranks are asked to stop and save so long before the time limit
  bool exclusive = false, requeue = true;
  int max_restarts = 3;                ///< after a lost rank or node; stops before the time limit are not counted
  std::vector<std::string> variables;  ///< NAME=VALUE
  std::string program;                 ///< path of trireme on the nodes
  std::vector<std::string> command;    ///< train config.yaml ...
  std::string run_folder;              ///< its status.json says whether a stop is final; empty: never
};

/// GPUs of each node that the job asks for: of --gpus-per-node or --gres. Throws Error::usage for both, and for another
/// form.
int gpus_of(const BatchJob& job);

/// GPUs among generic resources as Slurm writes them: "gpu:a100:4(S:0),gpu:2" has 6.
int64_t gpus_of_gres(const std::string& gres);

/// Seconds of a time limit in Slurm's forms: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes
/// [:seconds]]. Throws Error::usage for another form.
int64_t slurm_seconds(const std::string& time);

/// The script. With srun Slurm warns the steps (--signal=USR1@N), and the script requeues the job after code 75, unless
/// `trireme stop` stopped it, and, if the command has a run folder, after a lost rank (76, or a death by signal). With
/// mpirun Slurm warns the batch shell (B:), which has become `trireme launch` and does the same. If Slurm itself
/// requeues the job after a lost node, that counts as a loss, too (launch/slurm_restarts.h). Throws Error::usage for a
/// value that Slurm would refuse: a malformed time or mask, a container with mpirun, a line break in a value, a time
/// limit not longer than the warning.
std::string batch_script(const BatchJob& job);

// Whether a batch job can ever start: compares its requests with the partitions and nodes that the controller reports.

/// The format for `sinfo -h -N -o`.
inline constexpr const char* kPartitionFormat = "%N|%P|%c|%m|%l|%s|%a|%B|%G";

/// A node in a partition; 0: no limit.
struct PartitionNode {
  std::string node, partition;
  bool is_default = false, is_up = true;
  int64_t cpus = 0, memory_mb = 0, gpus = 0;
  int64_t most_seconds = 0, fewest_nodes = 0, most_nodes = 0, most_cpus = 0;  ///< limits of the partition
};

/// Skips rows that cannot be parsed.
std::vector<PartitionNode> read_partitions(std::string_view sinfo);

/// Why the job would wait forever in each of its partitions (the default one if it names none); empty: it can start, or
/// nothing is known. Includes time, partition, nodes and tasks from options of --sbatch. Pure.
std::string why_never(const BatchJob& job, const std::vector<PartitionNode>& nodes);

/// Cores and memory for a job that asks for GPUs but for neither, nor for whole nodes: Slurm's default is one core for
/// each rank.
struct GpuShare {
  int cpus_per_task = 0;  ///< 0: the job asks for cores itself, or nothing is known
  std::string memory;     ///< as of --mem; empty likewise
  std::string said;       ///< what was chosen and why; empty: nothing
};

/// The share of a node's cores and memory that is the job's share of its GPUs, the least of the nodes of its partitions
/// that have enough GPUs. Pure.
GpuShare share_of_gpus(const BatchJob& job, const std::vector<PartitionNode>& nodes);

/// A warning about a job that can start, such as a partition that is down now; empty: none. Pure.
std::string start_warning(const BatchJob& job, const std::vector<PartitionNode>& nodes);

/// Folders of the job's output and error files, which must exist: Slurm does not create them, and the job would fail
/// before its first line. Without empty ones; including those of --sbatch=--output, -o, --error, -e.
std::vector<std::string> output_folders(const BatchJob& job);

}  // namespace trireme
