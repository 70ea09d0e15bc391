#pragma once
#include "base/affinity.h"
#include "comm/process.h"
#include "comm/scalars.h"
#include "config/config.h"

namespace trireme {

/// Collective. Splits the host's cores between its ranks as launch.* and comm.cores ask, binds this process and says
/// how on every rank.
CorePlan take_cores(const Config& config, const Process& process, Scalars& scalars);

}  // namespace trireme
