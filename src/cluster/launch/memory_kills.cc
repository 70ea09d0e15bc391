#include "cluster/launch/memory_kills.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/cgroup.h"
#include "base/count.h"

namespace trireme::launch {

MemoryKills read_memory_kills() {
  const CgroupLimits limits = read_cgroup_limits();
  return {limits.oom_kills, memory_kills_on_host(), limits.memory_bytes};
}

Json to_json(const MemoryKills& kills) { return {kills.in_group, kills.on_host, kills.memory_limit}; }

MemoryKills memory_kills_from_json(const Json& document) { return {document.at(0), document.at(1), document.at(2)}; }

std::string describe_memory_kills(const MemoryKills& before, const MemoryKills& after) {
  constexpr const char* kFix = "lower batch.micro or the ranks on this host";
  if (after.in_group > before.in_group) {
    return fmt::format(
        "out of memory: the kernel killed {} of a control group with a limit of {:.2f} GiB; {}, or raise that limit",
        count_text(after.in_group - before.in_group, "process"), static_cast<double>(after.memory_limit) / (1 << 30),
        kFix);
  }
  if (after.on_host > before.on_host) {
    return fmt::format("out of memory: the kernel killed {} on this host during the run; {}",
                       count_text(after.on_host - before.on_host, "process"), kFix);
  }
  return "";
}

}  // namespace trireme::launch
