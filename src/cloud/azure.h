#pragma once
// A cluster on Azure: the calls of az that create it, in order (`plan` writes them into commands.sh, `create` runs
// them), and the checks through az before anything is created.

#include <string>
#include <vector>

#include "base/json.h"
#include "cloud/layout.h"

namespace trireme::cloud {

struct AzureStep {
  std::string what;                  ///< for a comment and for messages
  std::vector<std::string> words;    ///< az ...; "{NAME}" is replaced by the output of the step that captures NAME
  std::string type = {}, name = {};  ///< of the resource that it creates; empty: none that is listed
  std::string captures = {};         ///< name of its output
  std::string waits_for = {};        ///< node whose machine it waits for, which is missing if it fails
  std::string machine_of = {};       ///< node whose machine it creates; the others do not need it
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

/// Number of fault domains of an availability set: every region has two for managed disks, and only some have three,
/// which is the default of other tools.
inline constexpr const char* kAzureFaultDomains = "2";
/// Whether a size has too few hardware threads for accelerated networking.
bool is_small_on_azure(const std::string& size);

/// `folder` ends with "/" or is empty: the place of the plan's node.yaml and key.pub.
std::vector<AzureStep> azure_steps(const Cluster& cluster, const std::string& folder);
/// The steps of one node.
std::vector<AzureStep> azure_node_steps(const Cluster& cluster, const Node& node, const std::string& folder);

/// Text of commands.sh.
std::string azure_script(const Cluster& cluster);

/// Whether the cluster's resource group exists.
bool azure_group_exists(const Cluster& cluster);
/// All resources of the cluster's group, as `az resource list` shows them; empty if the group is missing.
Json azure_resources(const Cluster& cluster);

/// Throws Error::config with all problems: not logged in, a size that the region does not have or does not offer this
/// subscription, too little quota, names used by resources without the cluster's tag.
void check_azure(const Cluster& cluster);

}  // namespace trireme::cloud
