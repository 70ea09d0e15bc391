#include "cloud/node_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/count.h"
#include "base/text.h"
#include "plan/node_price.h"

namespace trireme::cloud {
namespace {

constexpr ProviderChoice kAzure = ProviderChoice::azure, kAws = ProviderChoice::aws;

constexpr std::array<NodeType, 23> kTypes = {{
    {kAzure, "Standard_D2s_v5", 2, 1, 8, false, 0},
    {kAzure, "Standard_D4s_v5", 4, 2, 16, false, 0},
    {kAzure, "Standard_D8s_v5", 8, 4, 32, false, 0},
    {kAzure, "Standard_D16s_v5", 16, 8, 64, false, 0},
    {kAzure, "Standard_D32_v5", 32, 16, 128, false, 0},
    {kAzure, "Standard_D32s_v5", 32, 16, 128, false, 0},
    {kAzure, "Standard_D64s_v5", 64, 32, 256, false, 0},
    {kAzure, "Standard_D96s_v5", 96, 48, 384, false, 0},
    {kAzure, "Standard_F72s_v2", 72, 36, 144, false, 0},
    {kAzure, "Standard_HB120rs_v3", 120, 120, 448, true, 0},
    {kAzure, "Standard_HB176rs_v4", 176, 176, 768, true, 0},
    {kAzure, "Standard_ND96amsr_A100_v4", 96, 96, 1900, true, 8},
    {kAzure, "Standard_ND96isr_H100_v5", 96, 96, 1900, true, 8},
    {kAws, "c6i.16xlarge", 64, 32, 128, false, 0},
    {kAws, "c6i.32xlarge", 128, 64, 256, true, 0},
    {kAws, "c7i.large", 2, 1, 4, false, 0},
    {kAws, "c7i.16xlarge", 64, 32, 128, false, 0},
    {kAws, "c7i.48xlarge", 192, 96, 384, true, 0},
    {kAws, "m7i.48xlarge", 192, 96, 768, true, 0},
    {kAws, "hpc6a.48xlarge", 96, 96, 384, true, 0},
    {kAws, "hpc7a.96xlarge", 192, 192, 768, true, 0},
    {kAws, "p4de.24xlarge", 96, 48, 1152, true, 8},
    {kAws, "p5.48xlarge", 192, 96, 2048, true, 8},
}};

const char* price_page(ProviderChoice provider) {
  return provider == kAzure ? "https://azure.microsoft.com/pricing/details/virtual-machines/linux/"
                            : "https://aws.amazon.com/ec2/pricing/on-demand/";
}

}  // namespace

const char* price_region(ProviderChoice provider, std::string_view type) {
  if (provider == kAzure) return "eastus";
  return type.starts_with("hpc") ? "us-east-2" : "us-east-1";
}

std::span<const NodeType> node_types() { return kTypes; }

const NodeType* find_node_type(ProviderChoice provider, std::string_view name) {
  for (const NodeType& type : kTypes) {
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

std::string type_of_head(const ClusterOptions& options) {
  return options.node.head_type.empty() ? type_of_nodes(options) : options.node.head_type;
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

const NodePrice* price_of(const ClusterOptions& options, const std::string& size) {
  return find_node_price(planner_name(options.cluster.provider, size));
}

}  // namespace

std::optional<double> cost_per_hour(const ClusterOptions& options, int64_t nodes) {
  const NodePrice* head = price_of(options, type_of_head(options));
  const NodePrice* other = price_of(options, type_of_nodes(options));
  if (head == nullptr || other == nullptr) return {};
  return head->usd_per_hour + static_cast<double>(nodes - 1) * other->usd_per_hour;
}

namespace {

std::string describe_price(const ClusterOptions& options, int64_t nodes) {
  const ProviderChoice provider = options.cluster.provider;
  if (provider == ProviderChoice::hosts)
    return fmt::format("{}, existing: the price is unknown", count_text(nodes, "machine"));
  const std::string what = type_of_head(options) == type_of_nodes(options)
                               ? type_of_nodes(options)
                               : type_of_head(options) + " and " + type_of_nodes(options);
  const std::optional<double> cost = cost_per_hour(options, nodes);
  if (!cost) {
    return fmt::format("{}, {}: the price is unknown, look it up at {}", count_text(nodes, "machine"), what,
                       price_page(provider));
  }
  const std::string of_head = price_of(options, type_of_head(options))->date,
                    of_nodes = price_of(options, type_of_nodes(options))->date;
  return fmt::format("{}, {}: {:.2f} USD per hour (list price without disks and traffic, {}, {}{}; {})",
                     count_text(nodes, "machine"), what, *cost, price_region(provider, type_of_nodes(options)),
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
  for (const NodeType& type : kTypes) {
    const NodePrice* price = find_node_price(planner_name(type.provider, type.name));
    page += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", name_of(type.provider), type.name,
                        type.vcpus, type.cores, type.memory_gib, type.gpus, type.fast ? "yes" : "no",
                        price == nullptr ? "unknown" : fmt::format("{}", price->usd_per_hour),
                        price == nullptr ? "" : price->date, price_region(type.provider, type.name));
  }
  return page;
}

}  // namespace trireme::cloud
