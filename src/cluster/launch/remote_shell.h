#pragma once
// Reaching another host: through ssh that never asks, or through the agent that waits there (agent_server.h).

#include <map>
#include <string>
#include <vector>

#include "cluster/hosts.h"

namespace trireme::launch {

/// Where `trireme agent` listens by default.
inline constexpr int kAgentPort = 7422;

struct RemoteOptions {
  /// ssh's StrictHostKeyChecking: "yes" refuses unknown keys, "accept-new" learns them; never "no".
  std::string host_key = "yes";
  int connect_seconds = 10;
  std::map<std::string, int> ports = {};  ///< of their sshd or agent, by host_key(); others have the usual one
  std::string daemon_mark = {};  ///< set as kDaemonVariable for what mpirun starts, the host behind it; empty: not
  bool through_srun = false;     ///< node agents start as steps of the Slurm job around us, which needs no keys

  bool agents = false;           ///< through the hosts' agents instead of ssh
  std::string secret_file = {};  ///< as read_agent_secret() takes it
  int agent_port = kAgentPort;   ///< where `ports` has none
  double wait_seconds = 0;       ///< that an agent may take to come
  std::string version = {};      ///< of this program: agents have the same

  int port_of(const std::string& host) const;  ///< of its agent
};

/// ssh and its options, up to the host. BatchMode: no password, no question, no banner.
std::vector<std::string> ssh_command(const RemoteOptions& options);
/// The same, the host's port and the host itself included.
std::vector<std::string> ssh_command(const RemoteOptions& options, const std::string& host);

/// `trireme remote-shell` with these options, up to the host: what mpirun calls.
std::vector<std::string> remote_shell_command(const std::string& executable, const RemoteOptions& options);
/// What runs a line of shell on a host and passes its streams; the line is still to be added.
std::vector<std::string> remote_command(const std::string& executable, const RemoteOptions& options,
                                        const std::string& host);

/// The ports of a hostfile's hosts, for RemoteOptions, and as one word without blanks: "n1=2222,n2=2222".
std::map<std::string, int> remote_ports(const std::vector<Host>& hosts);
std::string ports_word(const std::map<std::string, int>& ports);
/// Throws Error::usage.
std::map<std::string, int> read_ports_word(const std::string& word);

/// What keeps ssh from a host, as far as it matters to what is done next.
enum class SshFault {
  other,        ///< may pass by itself
  host_key,     ///< the host's key is unknown or another one
  key_refused,  ///< the host answered and takes none of our keys
};

struct RemoteFailure {
  SshFault fault = SshFault::other;
  std::string reason, fix;
};
/// The exit code of ssh and of our remote shell for a failure of their own.
inline constexpr int kRemoteShellFailed = 255;

/// What ssh's messages mean, when it ended with its own code 255.
RemoteFailure explain_ssh_failure(const std::string& host, const std::string& messages);
/// The same of what remote_command() gave.
RemoteFailure explain_remote_failure(const RemoteOptions& options, const std::string& host,
                                     const std::string& messages);

/// What mpirun calls in place of ssh: [options] HOST COMMAND... . Runs the command on the host that an
/// alias (host_alias.h) means, through ssh with our options or through its agent, standard streams passed through,
/// ssh's messages kept back; returns the exit code after saying what a failure to reach the host means.
int run_remote_shell(const RemoteOptions& options, const std::vector<std::string>& words);

/// Whether `host` is this one: "localhost", its own name in either length and case, a loopback address, or one of its
/// own addresses.
bool is_this_host(const std::string& host);

}  // namespace trireme::launch
