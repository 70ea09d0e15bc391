#include "cloud/azure.h"

#include <fmt/format.h>

#include "cloud/node_types.h"
#include "cluster/subprocess.h"

namespace trireme::cloud {
namespace {

using Words = std::vector<std::string>;

void append(Words& words, const Words& more) { words.insert(words.end(), more.begin(), more.end()); }

/// "az" with the action, the group and a name.
Words call(const Cluster& cluster, const Words& action, const std::string& name, const Words& more) {
  Words words = {"az"};
  append(words, action);
  append(words, {"--resource-group", azure_group(cluster), "--name", name});
  append(words, more);
  return words;
}

Words with_tags(const Cluster& cluster, Words words) {
  words.emplace_back("--tags");
  for (const auto& [key, value] : tags_of(cluster)) words.push_back(key + "=" + value);
  return words;
}

/// Creates a resource in the cluster's region, with its tags; `type` without "Microsoft.".
AzureStep created(const Cluster& cluster, const std::string& what, const char* type, const Words& action,
                  const std::string& name, const Words& more) {
  Words words = call(cluster, action, name, {"--location", cluster.options.network.region});
  append(words, more);
  return {what, with_tags(cluster, words), std::string("Microsoft.") + type, name};
}

AzureStep public_address(const Cluster& cluster, const std::string& of, const std::string& name) {
  return created(cluster, "address of " + of, "Network/publicIPAddresses", {"network", "public-ip", "create"}, name,
                 {"--sku", "Standard", "--allocation-method", "Static", "--version", "IPv4"});
}

void add_network(const Cluster& cluster, std::vector<AzureStep>& steps) {
  const std::string &name = cluster.name(), &range = cluster.options.network.range;
  steps.push_back(created(cluster, "the firewall", "Network/networkSecurityGroups", {"network", "nsg", "create"},
                          name + "-nsg", {}));
  Words words = call(cluster, {"network", "nsg", "rule", "create"}, "ssh",
                     {"--nsg-name", name + "-nsg", "--priority", "1000", "--direction", "Inbound", "--access", "Allow",
                      "--protocol", "Tcp", "--destination-port-ranges", "22", "--source-address-prefixes"});
  append(words, cluster.sources);
  steps.push_back({"ssh from the caller's addresses only", words});
  steps.push_back(created(cluster, "the network", "Network/virtualNetworks", {"network", "vnet", "create"},
                          name + "-vnet",
                          {"--address-prefixes", range, "--subnet-name", "nodes", "--subnet-prefixes", range,
                           "--network-security-group", name + "-nsg"}));
}

AzureStep change_subnet(const Cluster& cluster, const std::string& what, const std::string& option,
                        const std::string& value) {
  return {what, call(cluster, {"network", "vnet", "subnet", "update"}, "nodes",
                     {"--vnet-name", cluster.name() + "-vnet", option, value})};
}

/// Machines without a public address get packages and models through it; only the head is reachable from outside.
void add_way_out(const Cluster& cluster, std::vector<AzureStep>& steps) {
  const std::string nat = cluster.name() + "-nat", address = azure_nat_address(cluster);
  steps.push_back(public_address(cluster, "the NAT gateway", address));
  steps.push_back(created(cluster, "the NAT gateway", "Network/natGateways", {"network", "nat", "gateway", "create"},
                          nat, {"--public-ip-addresses", address, "--idle-timeout", "10"}));
  steps.push_back(change_subnet(cluster, "the nodes' route to the internet through it", "--nat-gateway", nat));
}

void add_storage(const Cluster& cluster, std::vector<AzureStep>& steps) {
  const std::string account = azure_account(cluster);
  steps.push_back(
      change_subnet(cluster, "a route from the network to the storage", "--service-endpoints", "Microsoft.Storage"));
  steps.push_back(created(cluster, "storage that only the nodes can reach (NFS has no https)",
                          "Storage/storageAccounts", {"storage", "account", "create"}, account,
                          {"--kind", "FileStorage", "--sku", "Premium_LRS", "--https-only", "false", "--default-action",
                           "Deny", "--vnet-name", cluster.name() + "-vnet", "--subnet", "nodes"}));
  steps.push_back(
      {"the shared folder", call(cluster, {"storage", "share-rm", "create"}, "cluster",
                                 {"--storage-account", account, "--enabled-protocols", "NFS", "--root-squash",
                                  "NoRootSquash", "--quota", std::to_string(cluster.options.storage.gb)})});
}

AzureStep placement(const Cluster& cluster) {
  if (uses_fast_network(cluster.options))
    return created(cluster, "one InfiniBand network for all: an availability set", "Compute/availabilitySets",
                   {"vm", "availability-set", "create"}, cluster.name() + "-set",
                   {"--platform-fault-domain-count", kAzureFaultDomains});
  return created(cluster, "machines near each other", "Compute/proximityPlacementGroups", {"ppg", "create"},
                 cluster.name() + "-near", {"--type", "Standard"});
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

bool is_small_on_azure(const std::string& size) {
  const NodeType* known = find_node_type(ProviderChoice::azure, size);
  return known != nullptr && known->vcpus < 4;
}

std::vector<AzureStep> azure_node_steps(const Cluster& cluster, const Node& node, const std::string& folder) {
  const ClusterOptions& options = cluster.options;
  const std::string &name = cluster.name(), &type = type_of(options, node);
  std::vector<AzureStep> steps;
  const bool is_public = has_public_address(options, node);
  if (is_public) steps.push_back(public_address(cluster, node.name, node.name + "-ip"));

  Words words = {"--vnet-name", name + "-vnet", "--subnet", "nodes", "--private-ip-address", node.address};
  if (is_public) append(words, {"--public-ip-address", node.name + "-ip"});
  append(words, {"--accelerated-networking", is_small_on_azure(type) ? "false" : "true"});
  steps.push_back(created(cluster, "network card of " + node.name, "Network/networkInterfaces",
                          {"network", "nic", "create"}, node.name + "-nic", words));

  const std::string image = cluster.pin("image").empty() ? azure_image(options) : cluster.pin("image");
  words = {"--size", type, "--image", image, "--nics", node.name + "-nic"};
  append(words, {"--admin-username", options.access.user, "--authentication-type", "ssh"});
  append(words, {"--ssh-key-values", folder + "key.pub", "--custom-data", folder + "cloud-init/node.yaml"});
  append(words, {"--os-disk-name", node.name + "-os", "--os-disk-size-gb", std::to_string(options.node.disk_gb)});
  append(words, {"--os-disk-delete-option", "Delete", "--nic-delete-option", "Delete"});
  append(words,
         uses_fast_network(options) ? Words{"--availability-set", name + "-set"} : Words{"--ppg", name + "-near"});
  if (options.node.spot && !node.is_head())
    append(words, {"--priority", "Spot", "--eviction-policy", "Delete", "--max-price", "-1"});
  if (ends_by_itself(cluster) && node.is_head()) {
    append(words, {"--assign-identity", "[system]", "--role", "Contributor", "--scope", "{GROUP_ID}"});
  } else {
    words.emplace_back("--no-wait");
  }
  steps.push_back(
      created(cluster, "machine " + node.name, "Compute/virtualMachines", {"vm", "create"}, node.name, words));
  if (!node.is_head()) steps.back().machine_of = node.name;
  return steps;
}

std::vector<AzureStep> azure_steps(const Cluster& cluster, const std::string& folder) {
  const std::string group = azure_group(cluster);
  std::vector<AzureStep> steps;
  if (owns_group(cluster)) {
    const Words words = {"az", "group", "create", "--name", group, "--location", cluster.options.network.region};
    steps.push_back({"a resource group for the cluster", with_tags(cluster, words)});
  }
  if (ends_by_itself(cluster)) {
    steps.push_back({"what the head may delete at the end of its lifetime: only this group",
                     {"az", "group", "show", "--name", group, "--query", "id", "--output", "tsv"}});
    steps.back().captures = "GROUP_ID";
  }
  add_network(cluster, steps);
  if (needs_nat_gateway(cluster)) add_way_out(cluster, steps);
  if (cluster.options.storage.kind == StorageChoice::provider) add_storage(cluster, steps);
  steps.push_back(placement(cluster));
  for (const Node& node : cluster.nodes) {
    for (AzureStep& step : azure_node_steps(cluster, node, folder)) steps.push_back(std::move(step));
  }
  for (const Node& node : cluster.nodes) {
    steps.push_back(
        {"waiting for " + node.name, call(cluster, {"vm", "wait"}, node.name,
                                          {"--created", "--interval", "15", "--timeout",
                                           fmt::format("{:.0f}", cluster.options.node.wait_minutes * 60)})});
    steps.back().waits_for = node.name;
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
