#pragma once
// Detects processes that the kernel killed because memory ran out, by the kernel's count of such kills.

#include <cstdint>
#include <string>

#include "base/json.h"

namespace trireme::launch {

/// Kills on this host since its boot.
struct MemoryKills {
  int64_t in_group = 0;      ///< in the control groups around this process that limit memory
  int64_t on_host = 0;       ///< anywhere on the host
  int64_t memory_limit = 0;  ///< smallest limit of those groups in bytes; 0: none
};

MemoryKills read_memory_kills();

Json to_json(const MemoryKills& kills);
MemoryKills memory_kills_from_json(const Json& document);

/// What happened between two readings and what to do; empty if nothing happened.
std::string describe_memory_kills(const MemoryKills& before, const MemoryKills& after);

}  // namespace trireme::launch
