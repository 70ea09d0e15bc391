#pragma once
// What a run would take and cost on the machines of a cluster's file.

#include <string>
#include <vector>

#include "cloud/options.h"

namespace trireme {

/// The planner's name of a provider's size: "azure-hb176rs-v4" of Standard_HB176rs_v4; "" for provider hosts.
std::string planned_type(const cloud::ClusterOptions& options);

/// The forecast of a run of these configuration files on all nodes, one rank each, at the cluster's price; the layouts
/// that fit where the configuration does not. node: a type's name or file (empty: planned_type()). Throws Error::config
/// for a type whose rates are unknown.
std::string cluster_forecast(const cloud::ClusterOptions& options, const std::vector<std::string>& files,
                             const std::string& node);

}  // namespace trireme
