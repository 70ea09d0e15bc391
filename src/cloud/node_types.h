#pragma once
// Known machine sizes: those of the planner's table (plan/node_table.cc). Other sizes may be used.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cloud/layout.h"

namespace trireme::cloud {

struct NodeType {
  ProviderChoice provider;
  std::string name;
  int vcpus, cores;  ///< hardware threads, physical cores
  int memory_gib;
  bool fast;  ///< InfiniBand or Elastic Fabric Adapter
  int gpus;   ///< NVIDIA GPUs
  double usd_per_hour;
  std::string price_date;  ///< when this was the list price: Linux, without commitment
};

/// The planner's name of a size: "azure-hb176rs-v4" of Standard_HB176rs_v4; "" for hosts.
std::string planner_name(ProviderChoice provider, std::string_view size);
/// The region of a size's price, where the size is available: AWS has high-performance sizes in few regions.
const char* price_region(ProviderChoice provider, std::string_view type);

std::span<const NodeType> node_types();
/// nullptr: not in the table.
const NodeType* find_node_type(ProviderChoice provider, std::string_view name);

/// node.type, or the provider's default; empty for hosts.
std::string type_of_nodes(const ClusterOptions& options);
/// node.head-type, or as the others; CycleCloud's scheduler, which does not train, is a small machine by default.
std::string type_of_head(const ClusterOptions& options);
std::string type_of(const ClusterOptions& options, const Node& node);
inline constexpr const char* kSchedulerSize = "Standard_D4s_v5";
/// Whether a machine beside the nodes is only their scheduler: CycleCloud's.
bool has_scheduler(const ClusterOptions& options);
/// With that.
int64_t machines_of(const ClusterOptions& options, int64_t nodes);
/// Network cards of a size of aws: each can have an Elastic Fabric Adapter, and together they have the size's
/// bandwidth.
int network_cards(std::string_view type);
/// What a size has beside processors, by the family's name.
enum class Accelerators : uint8_t { none, nvidia, other };
Accelerators accelerators_of(ProviderChoice provider, std::string_view type);
/// Whether the head or the other nodes have NVIDIA GPUs: then all have an image with the driver, CUDA and NCCL, unless
/// node.image names one.
bool has_gpus(const ClusterOptions& options);
/// That image leaves few GB of a smaller disk.
inline constexpr int64_t kLeastGpuDiskGb = 128;
/// Whether the nodes use InfiniBand or EFA.
bool uses_fast_network(const ClusterOptions& options);

/// US dollars per hour of all machines; nullopt if a size is not in the table. Spot prices change hourly, so the
/// regular price is reported as an upper bound.
std::optional<double> cost_per_hour(const ClusterOptions& options, int64_t nodes);
/// One line: "3 machines: 4.61 USD per hour (...)", or which price is unknown and where to look it up.
std::string describe_cost(const ClusterOptions& options, int64_t nodes);

/// The table in docs/clouds.md.
std::string node_types_table();

}  // namespace trireme::cloud
