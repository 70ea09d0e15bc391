#pragma once
#include <string>

#include "base/affinity.h"
#include "comm/process.h"
#include "comm/scalars.h"
#include "config/config.h"

namespace trireme {

/// Collective. Splits the host's cores between its ranks, binds this process and logs every rank's cores. reserved: for
/// communication, comm.cores.
CorePlan take_cores(const LaunchOptions& launch, int64_t reserved, const Process& process, Scalars& scalars);

/// Collective. The same anew for ranks with a GPU each, which compute on cores of its NUMA node as far as nobody has
/// bound them. before: what take_cores() gave. bus: of the rank's GPU (Backend::gpu). The log says where every GPU is;
/// where some rank's is unknown, nothing changes. Throws Error::config on all ranks as take_cores().
CorePlan move_to_gpus(const CorePlan& before, const std::string& bus, const LaunchOptions& launch, int64_t reserved,
                      const Process& process, Scalars& scalars);

}  // namespace trireme
