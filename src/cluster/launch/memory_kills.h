#pragma once
// Why a process was killed that nobody killed: the kernel's count of those that it ended for want of memory.

#include <cstdint>
#include <string>

#include "base/json.h"

namespace trireme::launch {

/// On this host since it was started.
struct MemoryKills {
  int64_t in_group = 0;      ///< in the control groups around this process that limit memory
  int64_t on_host = 0;       ///< anywhere
  int64_t memory_limit = 0;  ///< of those groups, bytes; 0: none
};

MemoryKills read_memory_kills();

Json to_json(const MemoryKills& kills);
MemoryKills memory_kills_from_json(const Json& document);

/// What happened between two readings and what to do; empty when nothing did.
std::string describe_memory_kills(const MemoryKills& before, const MemoryKills& after);

}  // namespace trireme::launch
