#pragma once
// The flags that name hosts, the same for hosts, launch and health.

#include "cli/flags.h"
#include "cluster/host_source.h"

namespace trireme {

void add_host_flags(Flags& app, HostRequest& request);

}  // namespace trireme
