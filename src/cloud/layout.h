#pragma once
// A cluster as its file describes it: the machines by name and address, and its resources in the provider's account.

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cloud/options.h"

namespace trireme::cloud {

struct Node {
  int index = 0;             ///< 1 is the head
  std::string name;          ///< name among the nodes
  std::string address;       ///< address among the nodes
  std::string login;         ///< address from this machine; empty: not known yet
  std::string machine = {};  ///< Machine::identity, known together with login
  std::string jump = {};     ///< login of the head, if this node is reached through it
  bool is_head() const { return index == 1; }
};

/// Choices that a provider made once for a cluster and that all later commands keep: "image", "zone", "root-device".
using Pins = std::map<std::string, std::string>;

struct Cluster {
  ClusterOptions options;
  std::string run;                   ///< identifies this cluster: derived from its name and its user's key
  std::string public_key;            ///< text of access.key
  std::vector<std::string> sources;  ///< access.from; for "caller" empty until it is resolved
  std::vector<Node> nodes;
  std::vector<Node> first_nodes;  ///< nodes of the first `create`: the machines' cloud-init document lists them
  Pins pins;                      ///< State::pins
  bool take_over =
      false;  ///< move existing files aside that are in the place of the cluster's files, instead of refusing
  const std::string& name() const { return options.cluster.name; }
  /// Empty if it is not chosen yet, as in a plan.
  std::string pin(const std::string& what) const {
    const auto found = pins.find(what);
    return found == pins.end() ? "" : found->second;
  }
};

/// The cluster of nodes with these numbers, of which the first is 1; `first`: how many the first `create` created. For
/// provider hosts they are positions in hosts.list, whose addresses are resolved; Error::config names one without an
/// address. Throws Error::config if access.key is not a file with one public key.
Cluster lay_out(const ClusterOptions& options, std::span<const int> numbers, int first);
/// The cluster of the first cluster.nodes nodes.
Cluster lay_out(const ClusterOptions& options);

/// Whether a machine of azure or aws has a public address; the others are reached through the head.
bool has_public_address(const ClusterOptions& options, const Node& node);

/// Whether the cluster needs a NAT gateway: any of its machines has no public address. A head alone needs none.
bool needs_nat_gateway(const Cluster& cluster);

/// The private address of node 1 of azure and aws.
std::string first_address(const ClusterOptions& options);

/// The address of the shared folder of aws: the last free one.
std::string storage_address(const ClusterOptions& options);

/// This machine's address as the provider sees it, "203.0.113.7/32", to replace `caller`. Asks
/// https://checkip.amazonaws.com through curl. Throws Error::io, with the advice to write the address into the file.
std::string public_address();

/// {"trireme-cluster", name}, {"trireme-run", run}, and those of cluster.tags.
std::vector<std::pair<std::string, std::string>> tags_of(const Cluster& cluster);

/// Path with a leading ~/ replaced.
std::string expand_home(const std::string& path);

}  // namespace trireme::cloud
