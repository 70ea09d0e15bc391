#pragma once
#include "base/affinity.h"
#include "comm/process.h"
#include "comm/scalars.h"
#include "config/config.h"

namespace trireme {

/// Collective. Splits the host's cores between its ranks by launch.* and comm.cores, binds this process and logs every
/// rank's cores.
CorePlan take_cores(const Config& config, const Process& process, Scalars& scalars);

}  // namespace trireme
