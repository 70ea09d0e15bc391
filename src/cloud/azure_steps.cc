#include "cloud/azure_steps.h"

#include <fmt/format.h>

#include "cloud/node_types.h"
#include "cluster/subprocess.h"

namespace trireme::cloud {
namespace {

using Words = std::vector<std::string>;

void append(Words& words, const Words& more) { words.insert(words.end(), more.begin(), more.end()); }

Words with_tags(const Cluster& cluster, Words words) {
  words.emplace_back("--tags");
  for (const auto& [key, value] : tags_of(cluster)) words.push_back(key + "=" + value);
  return words;
}

/// "az" with the action, the group and a name.
Words call(const Cluster& cluster, const Words& action, const std::string& name) {
  Words words = {"az"};
  append(words, action);
  append(words, {"--resource-group", azure_group(cluster), "--name", name});
  return words;
}

void add_network(const Cluster& cluster, std::vector<AzureStep>& steps) {
  const ClusterOptions& options = cluster.options;
  const std::string &name = cluster.name(), &region = options.network.region;
  Words words = call(cluster, {"network", "nsg", "create"}, name + "-nsg");
  append(words, {"--location", region});
  steps.push_back(
      {"the firewall", with_tags(cluster, words), "Microsoft.Network/networkSecurityGroups", name + "-nsg", ""});

  words = call(cluster, {"network", "nsg", "rule", "create"}, "ssh");
  append(words, {"--nsg-name", name + "-nsg", "--priority", "1000", "--direction", "Inbound", "--access", "Allow",
                 "--protocol", "Tcp", "--destination-port-ranges", "22", "--source-address-prefixes"});
  append(words, cluster.sources);
  steps.push_back({"ssh from the caller's addresses only", words, "", "", ""});

  words = call(cluster, {"network", "vnet", "create"}, name + "-vnet");
  append(words, {"--location", region, "--address-prefixes", options.network.range, "--subnet-name", "nodes",
                 "--subnet-prefixes", options.network.range, "--network-security-group", name + "-nsg"});
  steps.push_back({"the network", with_tags(cluster, words), "Microsoft.Network/virtualNetworks", name + "-vnet", ""});
}

/// Machines without a public address get packages and models through it; only the head is reachable from outside.
void add_way_out(const Cluster& cluster, std::vector<AzureStep>& steps) {
  const std::string &name = cluster.name(), &region = cluster.options.network.region;
  Words words = call(cluster, {"network", "public-ip", "create"}, azure_nat_address(cluster));
  append(words, {"--location", region, "--sku", "Standard", "--allocation-method", "Static", "--version", "IPv4"});
  steps.push_back({"address of the NAT gateway", with_tags(cluster, words), "Microsoft.Network/publicIPAddresses",
                   azure_nat_address(cluster), ""});

  words = call(cluster, {"network", "nat", "gateway", "create"}, name + "-nat");
  append(words, {"--location", region, "--public-ip-addresses", azure_nat_address(cluster), "--idle-timeout", "10"});
  steps.push_back({"the NAT gateway", with_tags(cluster, words), "Microsoft.Network/natGateways", name + "-nat", ""});

  words = call(cluster, {"network", "vnet", "subnet", "update"}, "nodes");
  append(words, {"--vnet-name", name + "-vnet", "--nat-gateway", name + "-nat"});
  steps.push_back({"the nodes' route to the internet through it", words, "", "", ""});
}

void add_storage(const Cluster& cluster, std::vector<AzureStep>& steps) {
  const std::string &name = cluster.name(), account = azure_account(cluster);
  Words words = call(cluster, {"network", "vnet", "subnet", "update"}, "nodes");
  append(words, {"--vnet-name", name + "-vnet", "--service-endpoints", "Microsoft.Storage"});
  steps.push_back({"a route from the network to the storage", words, "", "", ""});

  words = call(cluster, {"storage", "account", "create"}, account);
  append(words,
         {"--location", cluster.options.network.region, "--kind", "FileStorage", "--sku", "Premium_LRS", "--https-only",
          "false", "--default-action", "Deny", "--vnet-name", name + "-vnet", "--subnet", "nodes"});
  steps.push_back({"storage that only the nodes can reach (NFS has no https)", with_tags(cluster, words),
                   "Microsoft.Storage/storageAccounts", account, ""});

  words = call(cluster, {"storage", "share-rm", "create"}, "cluster");
  append(words, {"--storage-account", account, "--enabled-protocols", "NFS", "--root-squash", "NoRootSquash", "--quota",
                 std::to_string(cluster.options.storage.gb)});
  steps.push_back({"the shared folder", words, "", "", ""});
}

/// Every region has two for managed disks, and only some have three, which is the default of other tools.
constexpr const char* kFaultDomains = "2";

void add_placement(const Cluster& cluster, std::vector<AzureStep>& steps) {
  const bool fast = uses_fast_network(cluster.options);
  const std::string name = cluster.name() + (fast ? "-set" : "-near");
  Words words = call(cluster, fast ? Words{"vm", "availability-set", "create"} : Words{"ppg", "create"}, name);
  append(words, {"--location", cluster.options.network.region});
  append(words, fast ? Words{"--platform-fault-domain-count", kFaultDomains} : Words{"--type", "Standard"});
  steps.push_back({fast ? "one InfiniBand network for all: an availability set" : "machines near each other",
                   with_tags(cluster, words),
                   fast ? "Microsoft.Compute/availabilitySets" : "Microsoft.Compute/proximityPlacementGroups", name,
                   ""});
}

bool ends_by_itself(const Cluster& cluster) { return cluster.options.cluster.lifetime_hours > 0; }

}  // namespace

std::string azure_image(const ClusterOptions& options) {
  if (!options.node.image.empty()) return options.node.image;
  return has_gpus(options) ? "microsoft-dsvm:ubuntu-hpc:2404:latest" : "Canonical:ubuntu-24_04-lts:server:latest";
}

std::string azure_group(const Cluster& cluster) {
  return owns_group(cluster) ? "trireme-" + cluster.name() : cluster.options.azure.resource_group;
}

bool owns_group(const Cluster& cluster) { return cluster.options.azure.resource_group.empty(); }

std::string azure_nat_address(const Cluster& cluster) { return cluster.name() + "-nat-ip"; }

std::string azure_account(const Cluster& cluster) { return "trireme" + cluster.run; }

std::vector<AzureStep> azure_node_steps(const Cluster& cluster, const Node& node, const std::string& folder) {
  const ClusterOptions& options = cluster.options;
  const std::string &region = options.network.region, &name = cluster.name();
  const bool fast = uses_fast_network(options);
  std::vector<AzureStep> steps;

  const bool is_public = has_public_address(options, node);
  Words words;
  if (is_public) {
    words = call(cluster, {"network", "public-ip", "create"}, node.name + "-ip");
    append(words, {"--location", region, "--sku", "Standard", "--allocation-method", "Static", "--version", "IPv4"});
    steps.push_back({"address of " + node.name, with_tags(cluster, words), "Microsoft.Network/publicIPAddresses",
                     node.name + "-ip", ""});
  }

  const std::string& type = node.is_head() ? type_of_head(options) : type_of_nodes(options);
  const NodeType* known = find_node_type(ProviderChoice::azure, type);
  const bool small = known != nullptr && known->vcpus < 4;  // accelerated networking needs at least four
  words = call(cluster, {"network", "nic", "create"}, node.name + "-nic");
  append(words, {"--location", region, "--vnet-name", name + "-vnet", "--subnet", "nodes", "--private-ip-address",
                 node.address});
  if (is_public) append(words, {"--public-ip-address", node.name + "-ip"});
  append(words, {"--accelerated-networking", small ? "false" : "true"});
  steps.push_back({"network card of " + node.name, with_tags(cluster, words), "Microsoft.Network/networkInterfaces",
                   node.name + "-nic", ""});

  words = call(cluster, {"vm", "create"}, node.name);
  append(words, {"--location",
                 region,
                 "--size",
                 type,
                 "--image",
                 cluster.pin("image").empty() ? azure_image(options) : cluster.pin("image"),
                 "--nics",
                 node.name + "-nic",
                 "--admin-username",
                 options.access.user,
                 "--authentication-type",
                 "ssh",
                 "--ssh-key-values",
                 folder + "key.pub",
                 "--custom-data",
                 folder + "cloud-init/node.yaml",
                 "--os-disk-name",
                 node.name + "-os",
                 "--os-disk-size-gb",
                 std::to_string(options.node.disk_gb),
                 "--os-disk-delete-option",
                 "Delete",
                 "--nic-delete-option",
                 "Delete"});
  append(words, fast ? Words{"--availability-set", name + "-set"} : Words{"--ppg", name + "-near"});
  if (options.node.spot && !node.is_head())
    append(words, {"--priority", "Spot", "--eviction-policy", "Delete", "--max-price", "-1"});
  if (ends_by_itself(cluster) && node.is_head()) {
    append(words, {"--assign-identity", "[system]", "--role", "Contributor", "--scope", "{GROUP_ID}"});
  } else {
    words.emplace_back("--no-wait");
  }
  steps.push_back({"machine " + node.name, with_tags(cluster, words), "Microsoft.Compute/virtualMachines", node.name,
                   "", "", node.is_head() ? "" : node.name});
  return steps;
}

std::vector<AzureStep> azure_steps(const Cluster& cluster, const std::string& folder) {
  const std::string group = azure_group(cluster);
  std::vector<AzureStep> steps;
  if (owns_group(cluster)) {
    const Words words = {"az", "group", "create", "--name", group, "--location", cluster.options.network.region};
    steps.push_back({"a resource group for the cluster", with_tags(cluster, words), "", "", ""});
  }
  if (ends_by_itself(cluster)) {
    steps.push_back({"what the head may delete at the end of its lifetime: only this group",
                     {"az", "group", "show", "--name", group, "--query", "id", "--output", "tsv"},
                     "",
                     "",
                     "GROUP_ID"});
  }
  add_network(cluster, steps);
  if (needs_nat_gateway(cluster)) add_way_out(cluster, steps);
  if (cluster.options.storage.kind == StorageChoice::provider) add_storage(cluster, steps);
  add_placement(cluster, steps);
  for (const Node& node : cluster.nodes) {
    for (AzureStep& step : azure_node_steps(cluster, node, folder)) steps.push_back(std::move(step));
  }
  for (const Node& node : cluster.nodes) {
    Words words = call(cluster, {"vm", "wait"}, node.name);
    append(words, {"--created", "--interval", "15", "--timeout",
                   fmt::format("{:.0f}", cluster.options.node.wait_minutes * 60)});
    steps.push_back({"waiting for " + node.name + "", words, "", "", "", node.name});
  }
  return steps;
}

std::string azure_script(const Cluster& cluster) {
  std::string text = fmt::format(
      "#!/usr/bin/env bash\n"
      "# The cluster {} on Azure: what `trireme cluster create` runs, in this order. Run `az login` before.\n"
      "set -euo pipefail\n"
      "cd \"$(dirname \"$0\")\"\n",
      cluster.name());
  for (const AzureStep& step : azure_steps(cluster, "")) {
    text += "\n# " + step.what + "\n";
    std::string line;
    for (const std::string& word : step.words) {
      const bool captured = word.size() > 2 && word.front() == '{' && word.back() == '}';
      line +=
          (line.empty() ? "" : " ") + (captured ? "\"$" + word.substr(1, word.size() - 2) + "\"" : shell_quote(word));
    }
    text += step.captures.empty() ? line + "\n" : step.captures + "=$(" + line + ")\n";
  }
  return text;
}

}  // namespace trireme::cloud
