#pragma once
// List prices of nodes: the one table, for plans of runs and for clusters.

#include <string_view>

namespace trireme {

struct NodePrice {
  const char* name;  ///< the planner's name of the type: "azure-hb176rs-v4", "aws-hpc7a.96xlarge"
  double usd_per_hour;
  const char* date;  ///< when this was the price: Linux, without commitment
};

/// nullptr: unknown.
const NodePrice* find_node_price(std::string_view name);

}  // namespace trireme
