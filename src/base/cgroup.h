#pragma once
// Limits that a container or a batch system set on this process through control groups, versions 1 and 2.

#include <cstdint>
#include <filesystem>

namespace trireme {

struct CgroupLimits {
  double cpus = 0;           ///< processor seconds per second; 0: no limit
  int64_t memory_bytes = 0;  ///< 0: no limit
  int64_t oom_kills = 0;     ///< processes that the kernel's out-of-memory killer ended in these groups
};

/// The tightest limit between this process's group and the top. Unreadable groups (no cgroups, foreign mounts) set no
/// limit. `root`: where /proc and /sys are; tests use another.
CgroupLimits read_cgroup_limits(const std::filesystem::path& root = "/");

/// Processes that the kernel has killed anywhere on this host, since its boot, because memory ran out.
int64_t memory_kills_on_host();

}  // namespace trireme
