#pragma once
// Reaching another host: ssh that never asks, and its failures in words.

#include <string>
#include <vector>

namespace trireme::launch {

struct SshOptions {
  /// ssh's StrictHostKeyChecking: "yes" refuses unknown keys, "accept-new" learns them; never "no".
  std::string host_key = "yes";
  int connect_seconds = 10;
  bool through_srun = false;  ///< node agents start as steps of the Slurm job around us, which needs no keys
};

/// ssh and its options, up to the host. BatchMode: no password, no question, no banner.
std::vector<std::string> ssh_command(const SshOptions& options);

struct SshFailure {
  std::string reason, fix;
};

/// What ssh's messages mean, when it ended with its own code 255.
SshFailure explain_ssh_failure(const std::string& host, const std::string& messages);

/// What mpirun calls in place of ssh: [options] HOST COMMAND... . Runs ssh with our options, standard streams passed
/// through, its messages kept back; returns its exit code after saying what its own failure means.
int run_remote_shell(const SshOptions& options, const std::vector<std::string>& words);

/// Whether `host` is this one: "localhost", its own name in either length and case, a loopback address, or one of its
/// own addresses.
bool is_this_host(const std::string& host);

}  // namespace trireme::launch
