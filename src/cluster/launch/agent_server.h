#pragma once
// The far side of `trireme launch --agents`: `trireme agent` waits on a host and runs commands for whoever has the
// secret, as sshd does for whoever has a key.

#include <string>

namespace trireme::launch {

struct AgentOptions {
  std::string secret;
  std::string address;  ///< where it listens; empty: on every address
  int port = 0;         ///< 0: any free one
  std::string version;  ///< of this program
};

/// Says where it listens, then serves until TERM or INT: every connection in its own process, which runs one
/// command in a shell, passes the standard streams and the exit code, and ends the command when the connection ends
/// before it. What a command leaves in the background runs on until the agent ends, however that happens. Returns 0
/// once everything that runs below this process has been ended. Throws Error::comm where it cannot listen.
int serve_agent(const AgentOptions& options);

}  // namespace trireme::launch
