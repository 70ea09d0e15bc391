#include "cloud/node_types.h"

#include <fmt/format.h>

#include <array>
#include "base/count.h"

namespace trireme::cloud {
namespace {

constexpr ProviderChoice kAzure = ProviderChoice::azure, kAws = ProviderChoice::aws;

constexpr std::array<NodeType, 19> kTypes = {{
    {kAzure, "Standard_D2s_v5", 2, 1, 8, false, 0.096},
    {kAzure, "Standard_D4s_v5", 4, 2, 16, false, 0.192},
    {kAzure, "Standard_D8s_v5", 8, 4, 32, false, 0.384},
    {kAzure, "Standard_D16s_v5", 16, 8, 64, false, 0.768},
    {kAzure, "Standard_D32_v5", 32, 16, 128, false, 1.536},
    {kAzure, "Standard_D32s_v5", 32, 16, 128, false, 1.536},
    {kAzure, "Standard_D64s_v5", 64, 32, 256, false, 3.072},
    {kAzure, "Standard_D96s_v5", 96, 48, 384, false, 4.608},
    {kAzure, "Standard_F72s_v2", 72, 36, 144, false, 3.045},
    {kAzure, "Standard_HB120rs_v3", 120, 120, 448, true, 3.60},
    {kAzure, "Standard_HB176rs_v4", 176, 176, 768, true, 7.20},
    {kAws, "c6i.16xlarge", 64, 32, 128, false, 2.72},
    {kAws, "c6i.32xlarge", 128, 64, 256, true, 5.44},
    {kAws, "c7i.large", 2, 1, 4, false, 0.08925},
    {kAws, "c7i.16xlarge", 64, 32, 128, false, 2.856},
    {kAws, "c7i.48xlarge", 192, 96, 384, true, 8.568},
    {kAws, "m7i.48xlarge", 192, 96, 768, true, 9.6768},
    {kAws, "hpc6a.48xlarge", 96, 96, 384, true, 2.88},
    {kAws, "hpc7a.96xlarge", 192, 192, 768, true, 7.20},
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

bool has_accelerators(ProviderChoice provider, std::string_view type) {
  if (provider == kAzure) return type.starts_with("Standard_N");
  if (provider != kAws) return false;
  const std::string_view family = type.substr(0, type.find_first_of("0123456789"));
  return family == "p" || family == "g" || family == "gr" || family == "trn" || family == "inf" || family == "dl" ||
         family == "vt";
}

std::optional<double> cost_per_hour(const ClusterOptions& options, int64_t nodes) {
  const NodeType* head = find_node_type(options.cluster.provider, type_of_head(options));
  const NodeType* other = find_node_type(options.cluster.provider, type_of_nodes(options));
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
  return fmt::format("{}, {}: {:.2f} USD per hour (list price without disks and traffic, {}, {}{}; {})",
                     count_text(nodes, "machine"), what, *cost, price_region(provider, type_of_nodes(options)),
                     kPriceDate, options.node.spot ? ", spot costs less" : "", price_page(provider));
}

}  // namespace

std::string describe_cost(const ClusterOptions& options, int64_t nodes) {
  std::string unused;
  for (const std::string& type : {type_of_head(options), type_of_nodes(options)}) {
    if (has_accelerators(options.cluster.provider, type) && unused.find(type) == std::string::npos) {
      unused += fmt::format(
          "\n{} has accelerators, which cost money but are not used yet: trireme trains on processors", type);
    }
  }
  return describe_price(options, nodes) + unused;
}

std::string node_types_table() {
  std::string page =
      "| provider | type | hardware threads | cores | GiB | InfiniBand or EFA | USD per hour | in "
      "|\n|---|---|---|---|---|---|---|---|\n";
  for (const NodeType& type : kTypes) {
    page += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", name_of(type.provider), type.name, type.vcpus,
                        type.cores, type.memory_gib, type.fast ? "yes" : "no", type.usd_per_hour,
                        price_region(type.provider, type.name));
  }
  return page;
}

}  // namespace trireme::cloud
