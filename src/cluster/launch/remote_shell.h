#pragma once
// Reaching another host: ssh that never asks, and its failures in words.

#include <map>
#include <string>
#include <vector>

#include "cluster/hosts.h"

namespace trireme::launch {

struct SshOptions {
  /// ssh's StrictHostKeyChecking: "yes" refuses unknown keys, "accept-new" learns them; never "no".
  std::string host_key = "yes";
  int connect_seconds = 10;
  std::map<std::string, int> ports = {};  ///< of their sshd, by host_key(); others have ssh's own choice
  std::string daemon_mark = {};  ///< set as kDaemonVariable for what mpirun starts, the host behind it; empty: not
  bool through_srun = false;     ///< node agents start as steps of the Slurm job around us, which needs no keys
};

/// ssh and its options, up to the host. BatchMode: no password, no question, no banner.
std::vector<std::string> ssh_command(const SshOptions& options);
/// The same, the host's port and the host itself included.
std::vector<std::string> ssh_command(const SshOptions& options, const std::string& host);

/// The ports of a hostfile's hosts, for SshOptions, and as one word without blanks: "n1=2222,n2=2222".
std::map<std::string, int> ssh_ports(const std::vector<Host>& hosts);
std::string ports_word(const std::map<std::string, int>& ports);
/// Throws Error::usage.
std::map<std::string, int> read_ports_word(const std::string& word);

/// What keeps ssh from a host, as far as it matters to what is done next.
enum class SshFault {
  other,        ///< may pass by itself
  host_key,     ///< the host's key is unknown or another one
  key_refused,  ///< the host answered and takes none of our keys
};

struct SshFailure {
  SshFault fault = SshFault::other;
  std::string reason, fix;
};

/// What ssh's messages mean, when it ended with its own code 255.
SshFailure explain_ssh_failure(const std::string& host, const std::string& messages);

/// What mpirun calls in place of ssh: [options] HOST COMMAND... . Runs ssh with our options, to the host that an alias
/// (host_alias.h) means, standard streams passed through, its messages kept back; returns its exit code after saying
/// what its own failure means.
int run_remote_shell(const SshOptions& options, const std::vector<std::string>& words);

/// Whether `host` is this one: "localhost", its own name in either length and case, a loopback address, or one of its
/// own addresses.
bool is_this_host(const std::string& host);

}  // namespace trireme::launch
