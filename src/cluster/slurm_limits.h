#pragma once
// Whether a batch job can ever start: compares its requests with the partitions and nodes that the controller reports.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/sbatch.h"

namespace trireme {

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
