#pragma once
// The calls of az that create a cluster, in order: `plan` writes them into commands.sh, `create` runs them.

#include <string>
#include <vector>

#include "cloud/layout.h"

namespace trireme::cloud {

struct AzureStep {
  std::string what;                ///< for a comment and for messages
  std::vector<std::string> words;  ///< az ...; "{NAME}" is replaced by the output of the step that captures NAME
  std::string type, name;          ///< of the resource that it creates; empty: none that is listed
  std::string captures = {};       ///< name of its output
  std::string waits_for = {};      ///< node whose machine it waits for, which is missing if it fails
  std::string machine_of = {};     ///< node whose machine it creates; the others do not need it
};

/// node.image, or Ubuntu, for GPUs that with their driver: a URN, an alias or an identity of az.
std::string azure_image(const ClusterOptions& options);

/// trireme-NAME, or azure.resource-group.
std::string azure_group(const Cluster& cluster);
/// Whether the group belongs to the cluster.
bool owns_group(const Cluster& cluster);
/// Name of the NAT gateway's public address, if only the head has its own.
std::string azure_nat_address(const Cluster& cluster);
/// Name of the storage account, which must be unique in all of Azure.
std::string azure_account(const Cluster& cluster);

/// `folder` ends with "/" or is empty: the place of the plan's node.yaml and key.pub.
std::vector<AzureStep> azure_steps(const Cluster& cluster, const std::string& folder);
/// The steps of one node.
std::vector<AzureStep> azure_node_steps(const Cluster& cluster, const Node& node, const std::string& folder);

/// Text of commands.sh.
std::string azure_script(const Cluster& cluster);

}  // namespace trireme::cloud
