#pragma once
// The flags that name hosts, the same for hosts, launch and health.

#include "cli/flags.h"
#include "cluster/host_source.h"

namespace trireme {

void add_host_flags(Flags& app, HostRequest& request);
/// After app.parse(): throws Error::usage for --sinfo with an empty word, which the parser does not look at, and for
/// --states without --sinfo.
void require_sinfo(const Flags& app, const HostRequest& request);

}  // namespace trireme
