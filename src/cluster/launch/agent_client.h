#pragma once
// The head's side of `trireme agent`.

#include <string>

#include "cluster/launch/remote_shell.h"

namespace trireme::launch {

/// Runs a shell command line on a host through its agent, with our standard streams; returns its exit code. host may be
/// user@host. Retries for RemoteOptions::wait_seconds if no agent answers. Throws Error::config for the secret,
/// Error::comm with reason and fix if the agent cannot be reached, refuses us or is lost.
int run_through_agent(const RemoteOptions& options, const std::string& host, const std::string& line);

}  // namespace trireme::launch
