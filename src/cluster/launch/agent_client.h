#pragma once
// The head's side of `trireme agent`.

#include <string>

#include "cluster/launch/remote_shell.h"

namespace trireme::launch {

/// Runs a line of shell on a host through its agent, with our standard streams; returns its exit code. host may be
/// user@host. Until RemoteOptions::wait_seconds are over it tries again where no agent answers yet. Throws
/// Error::config for the secret, Error::comm with the reason and what to do where the agent cannot be reached, refuses
/// us or is lost.
int run_through_agent(const RemoteOptions& options, const std::string& host, const std::string& line);

}  // namespace trireme::launch
