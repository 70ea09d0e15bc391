#pragma once
// The options of group optim as the optimizer takes them.

#include "config/config.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace trireme {

Schedule schedule_of(const Config& config);
/// one_host: all ranks are on this one's. progress_cpus: where the exchange thread runs; empty: anywhere.
OptimizerOptions optimizer_options(const Config& config, bool one_host, std::vector<int> progress_cpus);

}  // namespace trireme
