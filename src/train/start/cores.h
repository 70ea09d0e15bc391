#pragma once
#include "base/affinity.h"
#include "comm/process.h"
#include "comm/scalars.h"
#include "config/config.h"

namespace trireme {

/// Collective. Splits the host's cores between its ranks, binds this process and logs every rank's cores. reserved: for
/// communication, comm.cores.
CorePlan take_cores(const LaunchOptions& launch, int64_t reserved, const Process& process, Scalars& scalars);

}  // namespace trireme
