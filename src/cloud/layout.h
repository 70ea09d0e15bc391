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
  std::string name;          ///< as the other nodes call it
  std::string address;       ///< as the other nodes reach it
  std::string login;         ///< as this machine reaches it; empty: not known yet
  std::string machine = {};  ///< Machine::identity, known together with login
  std::string jump = {};     ///< login of the head where this node is reached through it
  bool is_head() const { return index == 1; }
};

/// Choices that a provider made once for a cluster and that every later command keeps: "image", "zone", "root-device".
using Pins = std::map<std::string, std::string>;

struct Cluster {
  ClusterOptions options;
  std::string run;                   ///< identifies this cluster: derived from its name and its user's key
  std::string public_key;            ///< text of access.key
  std::vector<std::string> sources;  ///< access.from; of "caller": "" until it is asked for
  std::vector<Node> nodes;
  std::vector<Node> first_nodes;  ///< those of the first `create`: the machines' cloud-init document lists them
  Pins pins;                      ///< State::pins
  bool take_over = false;  ///< moves existing files at the places of the cluster's files aside instead of refusing
  const std::string& name() const { return options.cluster.name; }
  /// Empty where it is not chosen yet, as in a plan.
  std::string pin(const std::string& what) const {
    const auto found = pins.find(what);
    return found == pins.end() ? "" : found->second;
  }
};

/// The cluster of nodes with these numbers, the first of them 1; `first`: how many the first `create` made. For
/// provider hosts they are places in hosts.list, whose addresses are looked up; Error::config names one without an
/// address. Throws Error::config if access.key is not a file with one public key.
Cluster lay_out(const ClusterOptions& options, std::span<const int> numbers, int first);
/// Of the first cluster.nodes.
Cluster lay_out(const ClusterOptions& options);

/// Whether a machine of azure or aws has a public address; the others are reached through the head.
bool has_public_address(const ClusterOptions& options, const Node& node);

/// The private address of node 1 of azure and aws.
std::string first_address(const ClusterOptions& options);

/// The one of the shared folder of aws: the last that is free.
std::string storage_address(const ClusterOptions& options);

/// This machine's address as the provider sees it, "203.0.113.7/32", in place of `caller`. Asks
/// https://checkip.amazonaws.com through curl. Throws Error::io telling to write the address into the file.
std::string address_of_caller();

/// {"trireme-cluster", name}, {"trireme-run", run}, and those of cluster.tags.
std::vector<std::pair<std::string, std::string>> tags_of(const Cluster& cluster);

/// Path with a leading ~/ replaced.
std::string at_home(const std::string& path);

}  // namespace trireme::cloud
