#pragma once
// Checks through az before anything is created.

#include "base/json.h"
#include "cloud/layout.h"

namespace trireme::cloud {

/// Whether the cluster's resource group exists.
bool azure_group_exists(const Cluster& cluster);
/// All resources of the cluster's group, as `az resource list` shows them; empty if the group is missing.
Json azure_resources(const Cluster& cluster);

/// Throws Error::config with all problems: not logged in, a size that the region does not have or does not offer this
/// subscription, too little quota, names used by resources without the cluster's tag.
void check_azure(const Cluster& cluster);

}  // namespace trireme::cloud
