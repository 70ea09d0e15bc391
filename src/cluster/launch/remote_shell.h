#pragma once
// Reaching another host: through ssh without prompts, or through its agent (agent_server.h).

#include <map>
#include <string>
#include <vector>

#include "cluster/hosts.h"

namespace trireme::launch {

/// The default port of `trireme agent`.
inline constexpr int kAgentPort = 7422;

struct RemoteOptions {
  /// ssh's StrictHostKeyChecking: "yes" refuses unknown keys, "accept-new" accepts them; never "no".
  std::string host_key = "yes";
  int connect_seconds = 10;
  std::map<std::string, int> ports = {};  ///< of sshd or agent, by host_key(); other hosts have the default port
  std::string daemon_mark = {};  ///< with "/HOST" the value of kDaemonVariable for mpirun's daemons; empty: not set
  bool through_srun = false;     ///< node agents start as steps of the current Slurm job, without keys

  bool agents = false;           ///< use the hosts' agents instead of ssh
  std::string secret_file = {};  ///< as for read_agent_secret()
  int agent_port = kAgentPort;   ///< for hosts without an entry in `ports`
  double wait_seconds = 0;       ///< how long to wait for an agent
  std::string version = {};      ///< of this program; agents must have the same

  int port_of(const std::string& host) const;  ///< of its agent
};

/// ssh and its options, without the host. BatchMode: no password, no prompt, no banner.
std::vector<std::string> ssh_command(const RemoteOptions& options);
/// The same with the host's port and the host.
std::vector<std::string> ssh_command(const RemoteOptions& options, const std::string& host);

/// `trireme remote-shell` with these options, without the host: what mpirun calls.
std::vector<std::string> remote_shell_command(const std::string& executable, const RemoteOptions& options);
/// The command that runs a shell command line on a host and passes its streams; append that line.
std::vector<std::string> remote_command(const std::string& executable, const RemoteOptions& options,
                                        const std::string& host);

/// The ports of a hostfile's hosts, for RemoteOptions, and as one word without blanks: "n1=2222,n2=2222".
std::map<std::string, int> remote_ports(const std::vector<Host>& hosts);
std::string ports_word(const std::map<std::string, int>& ports);
/// Throws Error::usage.
std::map<std::string, int> read_ports_word(const std::string& word);

/// Why ssh cannot reach a host, as far as it affects the next action.
enum class SshFault {
  other,        ///< may be temporary
  host_key,     ///< the host's key is unknown or has changed
  key_refused,  ///< the host answered but refused our keys
};

struct RemoteFailure {
  SshFault fault = SshFault::other;
  std::string reason, fix;
};
/// The exit code of ssh and of our remote shell for their own failures.
inline constexpr int kRemoteShellFailed = 255;

/// The meaning of ssh's messages after its exit code 255.
RemoteFailure explain_ssh_failure(const std::string& host, const std::string& messages);
/// The same for the messages of remote_command().
RemoteFailure explain_remote_failure(const RemoteOptions& options, const std::string& host,
                                     const std::string& messages);

/// What mpirun calls instead of ssh: [options] HOST COMMAND... . Runs the command on the host of an alias
/// (host_alias.h), through ssh with our options or through its agent. Passes the standard streams but not ssh's
/// messages; if the host cannot be reached, logs the meaning. Returns the exit code.
int run_remote_shell(const RemoteOptions& options, const std::vector<std::string>& words);

/// Whether `host` is this one: "localhost", its own name with or without domain in any case, a loopback address, or one
/// of its own addresses.
bool is_this_host(const std::string& host);

/// Runs a shell command line on a host through its agent, with our standard streams; returns its exit code. host may be
/// user@host. Retries for RemoteOptions::wait_seconds if no agent answers. Throws Error::config for the secret,
/// Error::comm with reason and fix if the agent cannot be reached, refuses us or is lost.
int run_through_agent(const RemoteOptions& options, const std::string& host, const std::string& line);

}  // namespace trireme::launch
