#pragma once
// The options of group optim as the optimizer takes them.

#include "config/config.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace trireme {

RateSchedule schedule_of(const Config& config);
/// one_host: all ranks are on this one's. exchange_cores: where the exchange thread runs; empty: anywhere.
OptimizerOptions optimizer_options(const Config& config, bool one_host, std::vector<int> exchange_cores);

}  // namespace trireme
