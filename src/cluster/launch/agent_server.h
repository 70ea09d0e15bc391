#pragma once
// The remote side of `trireme launch --agents`: `trireme agent` waits on a host and runs commands for clients with the
// secret, as sshd does for clients with a key.

#include <string>

namespace trireme::launch {

struct AgentOptions {
  std::string secret;
  std::string address;  ///< where it listens; empty: on every address
  int port = 0;         ///< 0: any free one
  std::string version;  ///< of this program
};

/// Logs where it listens, then serves until TERM or INT: each connection in a separate process, which runs one command
/// in a shell, passes the standard streams and the exit code, and ends the command if the connection is lost first.
/// Background processes of a command run until the agent ends in any way. Returns 0 after all descendants of this
/// process have ended. Throws Error::comm if it cannot listen.
int serve_agent(const AgentOptions& options);

}  // namespace trireme::launch
