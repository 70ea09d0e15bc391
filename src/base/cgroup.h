#pragma once
// Limits that a container or a batch system set on this process through control groups, versions 1 and 2.

#include <cstdint>
#include <filesystem>

namespace trireme {

struct CgroupLimits {
  double cpus = 0;           ///< processors' worth of time per second; 0: no limit
  int64_t memory_bytes = 0;  ///< 0: no limit
  int64_t oom_kills = 0;     ///< processes that the kernel has ended in the groups that limit memory, for want of it
};

/// The tightest limit on the way from this process's group to the top. What cannot be read (no cgroups, foreign mounts)
/// limits nothing. `root`: where /proc and /sys are; another one in tests.
CgroupLimits read_cgroup_limits(const std::filesystem::path& root = "/");

}  // namespace trireme
