// Machines on Azure as Terraform's configuration: the resources of azure_steps.cc, with the same names and tags, so
// that `trireme cluster create` finds them and sets them up.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "cloud/azure.h"
#include "cloud/node_types.h"
#include "cloud/terraform.h"

namespace trireme::cloud {
namespace {

std::string group(const Cluster& cluster) {
  if (!owns_group(cluster))
    return Hcl("data", {"azurerm_resource_group", "cluster"}).text("name", azure_group(cluster)).str();
  Hcl block("resource", {"azurerm_resource_group", "cluster"});
  block.text("name", azure_group(cluster)).set("location", "local.region").set("tags", "local.tags");
  return block.str();
}

std::string firewall(const Cluster& cluster) {
  Hcl block = azure_resource_terraform(cluster, "azurerm_network_security_group", "cluster", cluster.name() + "-nsg");
  Hcl rule("security_rule");
  rule.text("name", "ssh")
      .set("priority", "1000")
      .text("direction", "Inbound")
      .text("access", "Allow")
      .text("protocol", "Tcp")
      .text("source_port_range", "*")
      .text("destination_port_range", "22")
      .set("source_address_prefixes", "var.allowed_sources")
      .text("destination_address_prefix", "*");
  return block.block(rule).str();
}

std::string way_out(const Cluster& cluster) {
  Hcl address = azure_resource_terraform(cluster, "azurerm_public_ip", "nat", azure_nat_address(cluster));
  address.text("allocation_method", "Static").text("sku", "Standard");
  Hcl gateway = azure_resource_terraform(cluster, "azurerm_nat_gateway", "cluster", cluster.name() + "-nat");
  gateway.text("sku_name", "Standard").set("idle_timeout_in_minutes", "10");
  Hcl own("resource", {"azurerm_nat_gateway_public_ip_association", "cluster"});
  own.set("nat_gateway_id", "azurerm_nat_gateway.cluster.id").set("public_ip_address_id", "azurerm_public_ip.nat.id");
  Hcl joined("resource", {"azurerm_subnet_nat_gateway_association", "nodes"});
  joined
      .comment(
          "Machines wait for this, and this waits for the gateway's address: without it they have no internet access.")
      .set("subnet_id", "azurerm_subnet.nodes.id")
      .set("nat_gateway_id", "azurerm_nat_gateway.cluster.id")
      .set("depends_on", "[azurerm_nat_gateway_public_ip_association.cluster]");
  return "\n# Machines without a public address get packages and models through it.\n" + address.str() + "\n" +
         gateway.str() + "\n" + own.str() + "\n" + joined.str();
}

std::string storage(const Cluster& cluster) {
  Hcl account = azure_resource_terraform(cluster, "azurerm_storage_account", "shared", azure_account(cluster));
  account.comment("checkov:skip=CKV2_AZURE_1: encrypted with Microsoft's key; a key of your own needs a key vault")
      .comment("checkov:skip=CKV2_AZURE_33: the subnet reaches it through its service endpoint")
      .comment("checkov:skip=CKV_AZURE_59: only the subnet reaches it, by the rule below")
      .comment("checkov:skip=CKV2_AZURE_38: it has files, which are kept for a week, and no blobs")
      .comment(
          "checkov:skip=CKV_AZURE_206: premium files have three copies in one place; copies elsewhere would cost more")
      .text("account_kind", "FileStorage")
      .text("account_tier", "Premium")
      .text("account_replication_type", "LRS")
      .text("min_tls_version", "TLS1_2")
      .flag("allow_nested_items_to_be_public", false)
      .flag("shared_access_key_enabled", false)
      .comment("NFS has no https; the network rule below is what protects it.")
      .flag("https_traffic_only_enabled", false);
  Hcl rules("network_rules");
  rules.text("default_action", "Deny").set("virtual_network_subnet_ids", "[azurerm_subnet.nodes.id]");
  Hcl kept("share_properties"), deleted("retention_policy");
  deleted.set("days", "7");
  account.block(rules).block(kept.block(deleted));
  Hcl share("resource", {"azurerm_storage_share", "shared"});
  share.text("name", "cluster")
      .set("storage_account_id", "azurerm_storage_account.shared.id")
      .text("enabled_protocol", "NFS")
      .set("quota", std::to_string(cluster.options.storage.gb));
  return "\n# Storage that only the nodes can reach.\n" + account.str() + "\n" + share.str();
}

/// Whether a size has premium disks: an "s" among the letters after its number, as in D32s_v5.
bool has_premium_disks(const std::string& size) {
  const size_t begin = size.find_first_of("0123456789", size.find('_'));
  if (begin == std::string::npos) return false;
  const size_t letters = size.find_first_not_of("0123456789", begin), end = size.find('_', begin);
  return letters != std::string::npos && size.substr(letters, end - letters).find('s') != std::string::npos;
}

std::string sizes_where(const ClusterOptions& options, bool (*holds)(const std::string&)) {
  std::vector<std::string> names;
  for (const std::string& size : {type_of_head(options), type_of_nodes(options)}) {
    if (holds(size) && std::ranges::find(names, size) == names.end()) names.push_back(size);
  }
  return hcl_texts(names);
}

void add_image(const Cluster& cluster, Hcl& machine) {
  const std::string image = azure_image(cluster.options);
  if (image.starts_with('/')) {
    machine.text("source_image_id", image);
    return;
  }
  std::vector<std::string> parts;
  for (size_t at = 0; at <= image.size(); at = std::min(image.find(':', at), image.size()) + 1)
    parts.push_back(image.substr(at, image.find(':', at) - at));
  require(parts.size() == 4, ErrorKind::config,
          "node.image: {} is a name of az, which Terraform does not know; write PUBLISHER:OFFER:SKU:VERSION (`az vm "
          "image list` shows it) or an identity (/subscriptions/...)",
          image);
  Hcl reference("source_image_reference");
  reference.text("publisher", parts[0]).text("offer", parts[1]).text("sku", parts[2]).text("version", parts[3]);
  machine.block(reference);
}

std::string nodes(const Cluster& cluster) {
  const ClusterOptions& options = cluster.options;
  const bool fast = uses_fast_network(options), ends = options.cluster.lifetime_hours > 0;
  std::string text = terraform_nodes(cluster, [](const Node&) { return HclMembers(); }) + "\n";

  Hcl placement =
      fast
          ? azure_resource_terraform(cluster, "azurerm_availability_set", "cluster", cluster.name() + "-set")
          : azure_resource_terraform(cluster, "azurerm_proximity_placement_group", "cluster", cluster.name() + "-near");
  if (fast) placement.set("platform_fault_domain_count", kAzureFaultDomains);
  text += fast ? "# One InfiniBand network for all.\n" : "# Machines near each other.\n";
  text += placement.str() + "\n";

  Hcl address("resource", {"azurerm_public_ip", "node"});
  address.set("for_each", "{ for name, node in local.nodes : name => node if node.public }")
      .set("name", "\"${each.key}-ip\"")
      .set("resource_group_name", azure_group_terraform(cluster, "name"))
      .set("location", "local.region")
      .text("allocation_method", "Static")
      .text("sku", "Standard")
      .set("tags", "local.tags");
  text += address.str() + "\n";

  Hcl card("resource", {"azurerm_network_interface", "node"});
  card.comment("checkov:skip=CKV_AZURE_119: only machines that are to be reached from outside have a public address")
      .set("for_each", "local.nodes")
      .set("name", "\"${each.key}-nic\"")
      .set("resource_group_name", azure_group_terraform(cluster, "name"))
      .set("location", "local.region")
      .set("tags", "local.tags")
      .set("accelerated_networking_enabled",
           fmt::format("!contains({}, each.value.size)", sizes_where(options, is_small_on_azure)));
  Hcl inside("ip_configuration");
  inside.text("name", "ipconfig1")
      .set("subnet_id", "azurerm_subnet.nodes.id")
      .text("private_ip_address_allocation", "Static")
      .set("private_ip_address", "each.value.address")
      .set("public_ip_address_id", "each.value.public ? azurerm_public_ip.node[each.key].id : null");
  text += card.block(inside).str() + "\n";

  Hcl machine("resource", {"azurerm_linux_virtual_machine", "node"});
  machine
      .comment(
          "checkov:skip=CKV_AZURE_50: the machine's agent tells `trireme cluster create` the host keys (az vm "
          "run-command)")
      .set("for_each", "local.nodes")
      .set("name", "each.key")
      .set("resource_group_name", azure_group_terraform(cluster, "name"))
      .set("location", "local.region")
      .set("size", "each.value.size")
      .set("network_interface_ids", "[azurerm_network_interface.node[each.key].id]")
      .set(fast ? "availability_set_id" : "proximity_placement_group_id",
           fast ? "azurerm_availability_set.cluster.id" : "azurerm_proximity_placement_group.cluster.id")
      .text("admin_username", options.access.user)
      .flag("disable_password_authentication", true)
      .flag("allow_extension_operations", true)
      .set("custom_data", "filebase64(\"${path.module}/cloud-init/node.yaml\")")
      .set("priority", "each.value.spot ? \"Spot\" : \"Regular\"")
      .set("eviction_policy", "each.value.spot ? \"Delete\" : null")
      .set("max_bid_price", "each.value.spot ? -1 : null")
      .set("tags", "local.tags");
  Hcl disk("os_disk");
  disk.set("name", "\"${each.key}-os\"")
      .text("caching", "ReadWrite")
      .set("storage_account_type", fmt::format("contains({}, each.value.size) ? \"Premium_LRS\" : \"StandardSSD_LRS\"",
                                               sizes_where(options, has_premium_disks)))
      .set("disk_size_gb", std::to_string(options.node.disk_gb));
  machine.block(azure_key_terraform(cluster)).block(disk);
  add_image(cluster, machine);
  if (ends) {
    Hcl identity("dynamic", {"identity"});
    Hcl content("content");
    content.text("type", "SystemAssigned");
    identity.set("for_each", "each.value.head ? [1] : []").block(content);
    machine.block(identity);
  }
  Hcl cycle("lifecycle");
  cycle.comment("A changed document or image must not replace machines that work.")
      .set("ignore_changes", "[custom_data, source_image_reference]");
  machine.block(cycle);
  std::vector<std::string> before = {"azurerm_subnet_network_security_group_association.nodes"};
  if (needs_nat_gateway(cluster)) before.emplace_back("azurerm_subnet_nat_gateway_association.nodes");
  if (options.storage.kind == StorageChoice::provider) before.emplace_back("azurerm_storage_share.shared");
  machine.set("depends_on", hcl_list(before));
  text += machine.str();
  if (!ends) return text;
  Hcl role("resource", {"azurerm_role_assignment", "end"});
  role.set("scope", azure_group_terraform(cluster, "id"))
      .text("role_definition_name", "Contributor")
      .set("principal_id", fmt::format("azurerm_linux_virtual_machine.node[{}].identity[0].principal_id",
                                       hcl_text(cluster.nodes.front().name)));
  return text + "\n# What the head may delete at the end of its lifetime: only this group.\n" + role.str();
}

std::string outputs(const Cluster& cluster) {
  Hcl addresses("output", {"addresses"});
  addresses.text("description", "public addresses of the machines that have one")
      .set("value", "{ for name, address in azurerm_public_ip.node : name => address.ip_address }");
  Hcl head("output", {"ssh"});
  head.text("description", "how to log in to the head")
      .set("value", fmt::format("\"ssh {}@${{azurerm_public_ip.node[{}].ip_address}}\"", cluster.options.access.user,
                                hcl_text(cluster.nodes.front().name)));
  return addresses.str() + "\n" + head.str();
}

}  // namespace

std::string azure_group_terraform(const Cluster& cluster, const std::string& attribute) {
  return (owns_group(cluster) ? "azurerm_resource_group.cluster." : "data.azurerm_resource_group.cluster.") + attribute;
}

Hcl azure_resource_terraform(const Cluster& cluster, const char* type, const char* label, const std::string& name) {
  Hcl block("resource", {type, label});
  block.text("name", name)
      .set("resource_group_name", azure_group_terraform(cluster, "name"))
      .set("location", "local.region")
      .set("tags", "local.tags");
  return block;
}

Hcl azure_key_terraform(const Cluster& cluster) {
  Hcl key("admin_ssh_key");
  return key.text("username", cluster.options.access.user)
      .set("public_key", "trimspace(file(\"${path.module}/key.pub\"))");
}

std::string azure_versions_terraform(const Cluster& cluster, bool storage) {
  Hcl azurerm("required_providers");
  azurerm.set("azurerm", "{\n  source  = \"hashicorp/azurerm\"\n  version = \"~> 4.20\"\n}");
  Hcl provider("provider", {"azurerm"});
  provider.comment("The login is that of `az login`; the subscription is ARM_SUBSCRIPTION_ID or the variable.")
      .set("subscription_id", "var.subscription_id");
  if (storage) provider.flag("storage_use_azuread", true);
  provider.block(Hcl("features"));
  Hcl subscription("variable", {"subscription_id"});
  subscription.text("description", "the subscription that pays (null: ARM_SUBSCRIPTION_ID)")
      .set("type", "string")
      .set("default", "null");
  return fmt::format("# The cluster {} on Azure; made by `trireme cluster plan --format terraform`.\n",
                     cluster.name()) +
         Hcl("terraform").text("required_version", ">= 1.5").block(azurerm).str() + "\n" + provider.str() + "\n" +
         subscription.str();
}

std::string azure_network_terraform(const Cluster& cluster, bool nat, const std::vector<std::string>& endpoints) {
  const ClusterOptions& options = cluster.options;
  std::string text = Hcl("locals").text("region", options.network.region).str() + "\n" + terraform_tags(cluster) +
                     "\n" + group(cluster) + "\n# ssh from the allowed addresses only.\n" + firewall(cluster) + "\n";
  Hcl network = azure_resource_terraform(cluster, "azurerm_virtual_network", "cluster", cluster.name() + "-vnet");
  network.set("address_space", hcl_texts({options.network.range}));
  Hcl subnet("resource", {"azurerm_subnet", "nodes"});
  subnet.text("name", "nodes")
      .set("resource_group_name", azure_group_terraform(cluster, "name"))
      .set("virtual_network_name", "azurerm_virtual_network.cluster.name")
      .set("address_prefixes", hcl_texts({options.network.range}))
      .flag("default_outbound_access_enabled", false);
  if (!endpoints.empty()) subnet.set("service_endpoints", hcl_texts(endpoints));
  Hcl guarded("resource", {"azurerm_subnet_network_security_group_association", "nodes"});
  guarded.set("subnet_id", "azurerm_subnet.nodes.id")
      .set("network_security_group_id", "azurerm_network_security_group.cluster.id");
  text += network.str() + "\n" + subnet.str() + "\n" + guarded.str();
  return nat ? text + way_out(cluster) : text;
}

std::vector<PlanFile> azure_terraform(const Cluster& cluster) {
  const ClusterOptions& options = cluster.options;
  const bool shares = options.storage.kind == StorageChoice::provider;
  std::vector<std::string> endpoints;
  if (shares) endpoints.emplace_back("Microsoft.Storage");
  std::string network = azure_network_terraform(cluster, needs_nat_gateway(cluster), endpoints);
  if (shares) network += storage(cluster);
  const auto provider = provider_of(ProviderChoice::azure);
  const std::string document = cloud_init(cluster, nullptr, provider->shared_folder(cluster), provider->end(cluster));
  return {{"versions.tf", azure_versions_terraform(cluster, false), false},
          {"variables.tf", terraform_sources(cluster), false},
          {"network.tf", network, false},
          {"nodes.tf", nodes(cluster), false},
          {"outputs.tf", outputs(cluster), false},
          {"cloud-init/node.yaml", document, false},
          {"key.pub", cluster.public_key + "\n", false}};
}

}  // namespace trireme::cloud
