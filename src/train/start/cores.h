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

/// The same for a process that measures or samples, with this number of threads; 0: its share of the physical cores.
CorePlan take_cores(int64_t threads, const Process& process, Scalars& scalars);

/// Collective. The same again for ranks with a GPU each, which compute on cores of its NUMA node as far as they are
/// not bound. before: what take_cores() gave. bus: of the rank's GPU (Backend::gpu). The log says where every GPU is;
/// where some rank's is unknown, nothing changes. Throws Error::config on all ranks as take_cores().
CorePlan move_to_gpus(const CorePlan& before, const std::string& bus, const LaunchOptions& launch, int64_t reserved,
                      const Process& process, Scalars& scalars);

}  // namespace trireme
