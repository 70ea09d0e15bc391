#pragma once
// The nodes of a cluster by ssh, with host keys that are known in advance.

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cloud/layout.h"
#include "cluster/launch/remote_shell.h"
#include "cluster/subprocess.h"

namespace trireme::cloud {

/// The result of a command on a node.
struct RemoteResult : ProcessResult {
  launch::SshFault fault = launch::SshFault::other;  ///< the error of ssh itself, if it failed
};

class Remote {
 public:
  /// known_hosts: the file of pinned keys; empty: the caller's own.
  Remote(const Cluster& cluster, std::string known_hosts);

  /// ssh with its options and the host, without the command; through the head if the node has no public address.
  std::vector<std::string> ssh_words(const Node& node) const;
  /// Runs a shell command as the user. If ssh itself failed, the result's error text explains it.
  RemoteResult run(const Node& node, const std::string& command, const std::string& input = "",
                   std::chrono::duration<double> timeout = std::chrono::minutes(30)) const;
  /// The same as root: through sudo, unless the user is root.
  RemoteResult run_as_root(const Node& node, const std::string& command, const std::string& input = "",
                           std::chrono::duration<double> timeout = std::chrono::minutes(30)) const;
  /// Output of run_as_root(). Throws Error::io naming the node, the command's first word and its last lines.
  std::string require_as_root(const Node& node, const std::string& command, const std::string& input = "",
                              std::chrono::duration<double> timeout = std::chrono::minutes(30)) const;
  std::string require_as_user(const Node& node, const std::string& command, const std::string& input = "") const;

  /// The node's host keys from known_hosts, one "ssh-ed25519 AAAA..." per line.
  std::vector<std::string> host_keys(const Node& node) const;

 private:
  std::string key_shown() const;

  std::string user_, known_hosts_, identity_, key_;
};

/// Node -> error.
using Failures = std::map<std::string, std::string>;

/// Runs `work` for all nodes in parallel; an exception is the node's error.
Failures for_each_node(const std::vector<Node>& nodes, const std::function<void(const Node&)>& work);

struct Patience {
  double seconds = 0;  ///< for a node that does not answer yet
  double refused = 0;  ///< for a node that refuses the key, after its first refusal
};

/// Waits until the user can log in to each node, and logs every half minute what it waits for. A changed or unknown
/// host key ends the wait. `before` is called before every attempt and may set how the node is reached.
Failures wait_for_nodes(const Remote& remote, std::vector<Node>& nodes, const Patience& patience,
                        const std::function<void(Node&)>& before);

/// What nodes answered, safe on a terminal: equal answers once, below a line "---- n[1-3] (3) ----" with the nodes that
/// gave them, in the order of the first of these.
std::string folded(const std::vector<std::pair<std::string, std::string>>& answers);

}  // namespace trireme::cloud
