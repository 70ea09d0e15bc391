#pragma once
// Whether a batch job could ever start: its requests against what the controller says of partitions and their nodes.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/sbatch.h"

namespace trireme {

/// What `sinfo -h -N -o kPartitionFormat` is asked for.
inline constexpr const char* kPartitionFormat = "%N|%P|%c|%m|%l|%s|%a|%B|%G";

/// A node in a partition; 0: no limit.
struct PartitionNode {
  std::string node, partition;
  bool is_default = false, is_up = true;
  int64_t cpus = 0, memory_mb = 0, gpus = 0;
  int64_t most_seconds = 0, fewest_nodes = 0, most_nodes = 0, most_cpus = 0;  ///< of the partition
};

/// Rows that cannot be read are left out.
std::vector<PartitionNode> read_partitions(std::string_view sinfo);

/// Why the job would wait for ever in each of its partitions (the default one where it names none); empty: it could
/// start, or nothing is known. Options of --sbatch count where they set a time, a partition, nodes or tasks. Pure.
std::string why_never(const BatchJob& job, const std::vector<PartitionNode>& nodes);

/// What should be said of it all the same, such as a partition that is down now; empty: nothing. Pure.
std::string why_not_now(const BatchJob& job, const std::vector<PartitionNode>& nodes);

/// The file of the job's output, or of its errors, whose folder has to be there: Slurm makes none, and the job fails
/// before its first line. Empty folders are left out; those of --sbatch=--output, -o, --error, -e are among them.
std::vector<std::string> output_folders(const BatchJob& job);

}  // namespace trireme
