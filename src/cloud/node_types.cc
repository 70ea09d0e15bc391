#include "cloud/node_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/count.h"
#include "base/text.h"
#include "plan/node_type.h"

namespace trireme::cloud {
namespace {

constexpr ProviderChoice kAzure = ProviderChoice::azure, kAws = ProviderChoice::aws;

const char* price_page(ProviderChoice provider) {
  return provider == kAzure ? "https://azure.microsoft.com/pricing/details/virtual-machines/linux/"
                            : "https://aws.amazon.com/ec2/pricing/on-demand/";
}

}  // namespace

const char* price_region(ProviderChoice provider, std::string_view type) {
  if (provider == kAzure) return "eastus";
  return type.starts_with("hpc") ? "us-east-2" : "us-east-1";
}

std::span<const NodeType> node_types() {
  static const std::vector<NodeType> all = [] {
    std::vector<NodeType> sizes;
    for (const trireme::NodeType& known : trireme::node_types()) {
      if (known.size.empty()) continue;
      const bool azure = known.name.starts_with("azure-");
      sizes.push_back({azure ? kAzure : kAws, known.size, static_cast<int>(known.threads),
                       static_cast<int>(known.cores), static_cast<int>(known.memory_gib), known.fast,
                       static_cast<int>(known.gpus), known.price_per_hour, known.price_date});
    }
    return sizes;
  }();
  return all;
}

const NodeType* find_node_type(ProviderChoice provider, std::string_view name) {
  for (const NodeType& type : node_types()) {
    if (type.provider == provider && name == type.name) return &type;
  }
  return nullptr;
}

std::string type_of_nodes(const ClusterOptions& options) {
  if (!options.node.type.empty()) return options.node.type;
  switch (options.cluster.provider) {
    case ProviderChoice::azure:
      return "Standard_D32s_v5";
    case ProviderChoice::aws:
      return "c7i.16xlarge";
    case ProviderChoice::hosts:
      break;
  }
  return "";
}

bool has_scheduler(const ClusterOptions& options) { return options.cluster.scheduler == SchedulerChoice::cyclecloud; }

std::string type_of_head(const ClusterOptions& options) {
  if (!options.node.head_type.empty()) return options.node.head_type;
  return has_scheduler(options) ? kSchedulerSize : type_of_nodes(options);
}

std::string type_of(const ClusterOptions& options, const Node& node) {
  return node.is_head() ? type_of_head(options) : type_of_nodes(options);
}

bool uses_fast_network(const ClusterOptions& options) {
  if (options.network.fast != FastNetwork::automatic) return options.network.fast == FastNetwork::on;
  const NodeType* type = find_node_type(options.cluster.provider, type_of_nodes(options));
  return type != nullptr && type->fast;
}

int network_cards(std::string_view type) {
  if (type.starts_with("hpc7a.") || type.starts_with("hpc6id.")) return 2;
  const std::string_view family = type.substr(0, type.find('.'));
  if (family == "p4d" || family == "p4de") return 4;
  if (type == "p5.48xlarge" || family == "p5e") return 32;
  if (family == "p5en") return 16;
  const bool largest = type.ends_with(".32xlarge") || type.ends_with(".metal");
  return largest && (family == "c6in" || family == "m6in" || family == "r6in" || family == "m6idn" || family == "r6idn")
             ? 2
             : 1;
}

Accelerators accelerators_of(ProviderChoice provider, std::string_view type) {
  if (provider == kAzure) {
    if (!type.starts_with("Standard_N")) return Accelerators::none;
    const bool amd = type.find("MI300X") != std::string_view::npos || type.starts_with("Standard_NG") ||
                     (type.starts_with("Standard_NV") && type.ends_with("_v4"));
    return amd ? Accelerators::other : Accelerators::nvidia;
  }
  if (provider != kAws) return Accelerators::none;
  const std::string_view family = type.substr(0, type.find_first_of("0123456789"));
  if (type.starts_with("g4ad")) return Accelerators::other;
  if (family == "p" || family == "g" || family == "gr") return Accelerators::nvidia;
  const bool other = family == "trn" || family == "inf" || family == "dl" || family == "vt";
  return other ? Accelerators::other : Accelerators::none;
}

bool has_gpus(const ClusterOptions& options) {
  const ProviderChoice provider = options.cluster.provider;
  return accelerators_of(provider, type_of_head(options)) == Accelerators::nvidia ||
         accelerators_of(provider, type_of_nodes(options)) == Accelerators::nvidia;
}

std::string planner_name(ProviderChoice provider, std::string_view size) {
  std::string name = lower_case(std::string(size));
  if (provider == kAws) return "aws-" + name;
  if (provider != kAzure) return "";
  const std::string standard = "standard_";
  if (name.starts_with(standard)) name.erase(0, standard.size());
  std::ranges::replace(name, '_', '-');
  return "azure-" + name;
}

namespace {

/// nullptr: unknown.
const NodeType* price_of(const ClusterOptions& options, const std::string& size) {
  return find_node_type(options.cluster.provider, size);
}

}  // namespace

int64_t machines_of(const ClusterOptions& options, int64_t nodes) { return nodes + (has_scheduler(options) ? 1 : 0); }

std::optional<double> cost_per_hour(const ClusterOptions& options, int64_t nodes) {
  const NodeType* head = price_of(options, type_of_head(options));
  const NodeType* other = price_of(options, type_of_nodes(options));
  if (head == nullptr || other == nullptr) return {};
  return head->usd_per_hour + static_cast<double>(machines_of(options, nodes) - 1) * other->usd_per_hour;
}

namespace {

std::string describe_price(const ClusterOptions& options, int64_t nodes) {
  const ProviderChoice provider = options.cluster.provider;
  if (provider == ProviderChoice::hosts)
    return fmt::format("{}, existing: the price is unknown", count_text(machines_of(options, nodes), "machine"));
  const std::string what = type_of_head(options) == type_of_nodes(options)
                               ? type_of_nodes(options)
                               : type_of_head(options) + " and " + type_of_nodes(options);
  const std::optional<double> cost = cost_per_hour(options, nodes);
  if (!cost) {
    return fmt::format("{}, {}: the price is unknown, look it up at {}",
                       count_text(machines_of(options, nodes), "machine"), what, price_page(provider));
  }
  const std::string of_head = price_of(options, type_of_head(options))->price_date,
                    of_nodes = price_of(options, type_of_nodes(options))->price_date;
  return fmt::format("{}, {}: {:.2f} USD per hour (list price without disks and traffic, {}, {}{}; {})",
                     count_text(machines_of(options, nodes), "machine"), what, *cost,
                     price_region(provider, type_of_nodes(options)),
                     of_head == of_nodes ? of_nodes : of_head + " and " + of_nodes,
                     options.node.spot ? ", spot costs less" : "", price_page(provider));
}

}  // namespace

std::string describe_cost(const ClusterOptions& options, int64_t nodes) {
  std::string unused;
  for (const std::string& type : {type_of_head(options), type_of_nodes(options)}) {
    const Accelerators has = accelerators_of(options.cluster.provider, type);
    if (has == Accelerators::none || unused.find(type) != std::string::npos) continue;
    unused += has == Accelerators::nvidia
                  ? fmt::format("\n{} has GPUs: a job trains on one of them per rank", type)
                  : fmt::format("\n{} has accelerators that are not used: trireme trains on processors and NVIDIA GPUs",
                                type);
  }
  return describe_price(options, nodes) + unused;
}

std::string node_types_table() {
  std::string page =
      "| provider | type | hardware threads | cores | GiB | GPUs | InfiniBand or EFA | USD per hour | date | in "
      "|\n|---|---|---|---|---|---|---|---|---|---|\n";
  for (const NodeType& type : node_types()) {
    page += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", name_of(type.provider), type.name,
                        type.vcpus, type.cores, type.memory_gib, type.gpus, type.fast ? "yes" : "no",
                        fmt::format("{}", type.usd_per_hour), type.price_date, price_region(type.provider, type.name));
  }
  return page;
}

}  // namespace trireme::cloud
