#pragma once
// The flags that name hosts, the same for hosts, launch and health.

#include "cli/flags.h"
#include "cluster/host_source.h"
#include "cluster/launch/remote_shell.h"

namespace trireme {

void add_host_flags(Flags& app, HostRequest& request);
/// After app.parse(): throws Error::usage for --sinfo with an empty word, which the parser does not check, and for
/// --states without --sinfo.
void require_sinfo(const Flags& app, const HostRequest& request);

/// The flags for connections to these hosts, the same for launch and health.
void add_remote_flags(Flags& app, launch::RemoteOptions& options);
/// After app.parse(): completes the options. Throws Error::usage for a wrong --host-key and for flags of the unused
/// connection type, Error::config for the secret.
void complete_remote_options(const Flags& app, launch::RemoteOptions& options);

/// Whether the flags name hosts.
bool names_hosts(const HostRequest& request);
/// Without names_hosts(): throws Error::usage for flags that select hosts or reach them.
void require_no_host_selection(const HostRequest& request, const launch::RemoteOptions& options);
std::vector<std::string> names_of(const HostSet& hosts);

}  // namespace trireme
