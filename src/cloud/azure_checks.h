#pragma once
// What az tells before anything is made.

#include "base/json.h"
#include "cloud/layout.h"

namespace trireme::cloud {

/// Whether the cluster's resource group is there.
bool azure_group_exists(const Cluster& cluster);
/// All resources of the cluster's group, as `az resource list` shows them; none where the group is not there.
Json azure_resources(const Cluster& cluster);

/// Throws Error::config with everything that is wrong: not logged in, a size that the region does not have or does not
/// give to this subscription, too little quota, names that are taken by what does not bear the cluster's tag.
void check_azure(const Cluster& cluster);

}  // namespace trireme::cloud
