// A CycleCloud server as Terraform's configuration: network, locker, identities with the rights that they need, the
// server, and the cluster's project (cyclecloud.cc), which the server imports at its first start.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "cloud/azure.h"
#include "cloud/node_types.h"
#include "cloud/terraform.h"
#include "cluster/subprocess.h"

namespace trireme::cloud {
namespace {

constexpr const char* kPathCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+~-/";
constexpr const char* kImage = "azurecyclecloud:azure-cyclecloud:cyclecloud8-gen2";

std::string variables(const Cluster& cluster) {
  Hcl size("variable", {"server_size"});
  size.text("description", "size of the CycleCloud server").set("type", "string").text("default", "Standard_D4s_v5");
  Hcl start("variable", {"start"});
  start.text("description", "start the cluster's machines, which cost money, as soon as the server is ready")
      .set("type", "bool")
      .set("default", "false");
  Hcl terms("variable", {"accept_terms"});
  terms
      .text("description",
            fmt::format("accept the terms of the image {}; false if your subscription has accepted them", kImage))
      .set("type", "bool")
      .set("default", "true");
  return terraform_sources(cluster) + "\n" + size.str() + "\n" + start.str() + "\n" + terms.str();
}

/// The locker, which has the project: read by the nodes, written by the server and by who runs Terraform.
std::string locker(const Cluster& cluster, const std::vector<std::string>& files) {
  Hcl account = azure_resource_terraform(cluster, "azurerm_storage_account", "locker", azure_account(cluster));
  account.comment("checkov:skip=CKV2_AZURE_1: encrypted with Microsoft's key; a key of your own needs a key vault")
      .comment("checkov:skip=CKV2_AZURE_33: the subnet reaches it through its service endpoint")
      .comment("checkov:skip=CKV_AZURE_59: only the subnet and the allowed addresses reach it, by the rules below")
      .comment("checkov:skip=CKV_AZURE_206: the project can be uploaded again, so one copy suffices")
      .comment("checkov:skip=CKV_AZURE_33: it has no queues")
      .text("account_kind", "StorageV2")
      .text("account_tier", "Standard")
      .text("account_replication_type", "LRS")
      .text("min_tls_version", "TLS1_2")
      .flag("https_traffic_only_enabled", true)
      .flag("allow_nested_items_to_be_public", false)
      .comment("The account has no keys: all access is by identity.")
      .flag("shared_access_key_enabled", false)
      .flag("default_to_oauth_authentication", true)
      .flag("infrastructure_encryption_enabled", true);
  Hcl rules("network_rules");
  rules.text("default_action", "Deny")
      .comment("Azure takes single addresses without /32.")
      .set("ip_rules", "[for source in var.allowed_sources : trimsuffix(source, \"/32\")]")
      .set("virtual_network_subnet_ids", "[azurerm_subnet.nodes.id]");
  Hcl kept("blob_properties"), deleted("delete_retention_policy");
  deleted.set("days", "7");
  Hcl sas("sas_policy");
  sas.text("expiration_period", "00.01:00:00").text("expiration_action", "Log");
  account.block(rules).block(kept.block(deleted)).block(sas);

  Hcl container("resource", {"azurerm_storage_container", "locker"});
  container.comment("checkov:skip=CKV2_AZURE_21: logs of reads cost money; turn them on with a workspace of your own")
      .text("name", "cyclecloud")
      .set("storage_account_id", "azurerm_storage_account.locker.id")
      .text("container_access_type", "private");
  Hcl user("resource", {"azurerm_role_assignment", "upload"});
  user.set("scope", "azurerm_storage_account.locker.id")
      .text("role_definition_name", "Storage Blob Data Contributor")
      .set("principal_id", "data.azurerm_client_config.current.object_id");
  std::string names;
  for (const std::string& file : files) names += "  " + hcl_text(file) + ",\n";
  Hcl list("locals");
  list.set("project_files", "[\n" + names + "]");
  Hcl blob("resource", {"azurerm_storage_blob", "project"});
  blob.set("for_each", "toset(local.project_files)")
      .set("name", "\"trireme/${each.key}\"")
      .set("storage_account_name", "azurerm_storage_account.locker.name")
      .set("storage_container_name", "azurerm_storage_container.locker.name")
      .text("type", "Block")
      .set("source", "\"${path.module}/cyclecloud/${each.key}\"")
      .set("content_md5", "filemd5(\"${path.module}/cyclecloud/${each.key}\")")
      .set("depends_on", "[azurerm_role_assignment.upload]");
  return account.str() + "\n" + container.str() + "\n# The user who runs Terraform uploads the project.\n" +
         user.str() + "\n" + list.str() + "\n" + blob.str();
}

/// What CycleCloud does with machines, and nothing about keys, roles or other groups.
constexpr std::initializer_list<const char*> kMachineActions = {
    "Microsoft.Compute/availabilitySets/*",
    "Microsoft.Compute/disks/*",
    "Microsoft.Compute/virtualMachines/*",
    "Microsoft.Compute/virtualMachineScaleSets/*",
    "Microsoft.ManagedIdentity/userAssignedIdentities/*/assign/action",
    "Microsoft.Network/networkInterfaces/read",
    "Microsoft.Network/networkInterfaces/write",
    "Microsoft.Network/networkInterfaces/delete",
    "Microsoft.Network/networkInterfaces/join/action",
    "Microsoft.Network/networkSecurityGroups/read",
    "Microsoft.Network/networkSecurityGroups/join/action",
    "Microsoft.Network/virtualNetworks/read",
    "Microsoft.Network/virtualNetworks/subnets/read",
    "Microsoft.Network/virtualNetworks/subnets/join/action",
    "Microsoft.Resources/deployments/read",
    "Microsoft.Resources/subscriptions/resourceGroups/read",
    "Microsoft.Resources/subscriptions/resourceGroups/resources/read",
    "Microsoft.Storage/storageAccounts/read",
};
/// What it reads of the whole subscription: sizes, prices, quotas, images.
constexpr std::initializer_list<const char*> kReadActions = {
    "Microsoft.Commerce/RateCard/read",
    "Microsoft.Compute/images/read",
    "Microsoft.Compute/locations/*/read",
    "Microsoft.Compute/skus/read",
    "Microsoft.Network/locations/*/read",
    "Microsoft.Resources/subscriptions/operationresults/read",
    "Microsoft.Resources/subscriptions/resourceGroups/read",
    "Microsoft.Storage/checknameavailability/read",
};

std::string lines_of(std::initializer_list<const char*> actions) {
  std::string text = "[\n";
  for (const char* action : actions) text += "  " + hcl_text(action) + ",\n";
  return text + "]";
}

std::string role(const Cluster& cluster, const std::string& label, const std::string& scope,
                 std::initializer_list<const char*> actions) {
  Hcl definition("resource", {"azurerm_role_definition", label}), permissions("permissions");
  permissions.set("actions", lines_of(actions));
  definition.text("name", fmt::format("trireme {} {} {}", cluster.name(), cluster.run, label))
      .set("scope", scope)
      .set("assignable_scopes", "[" + scope + "]")
      .block(permissions);
  Hcl assigned("resource", {"azurerm_role_assignment", label});
  assigned.set("scope", scope)
      .set("role_definition_id", fmt::format("azurerm_role_definition.{}.role_definition_resource_id", label))
      .set("principal_id", "azurerm_user_assigned_identity.server.principal_id")
      .text("principal_type", "ServicePrincipal");
  return definition.str() + "\n" + assigned.str();
}

std::string container_role(const char* label, const char* name, const char* identity) {
  Hcl assigned("resource", {"azurerm_role_assignment", label});
  assigned.set("scope", "azurerm_storage_container.locker.id")
      .text("role_definition_name", name)
      .set("principal_id", fmt::format("azurerm_user_assigned_identity.{}.principal_id", identity))
      .text("principal_type", "ServicePrincipal");
  return assigned.str();
}

std::string identities(const Cluster& cluster) {
  return "# Two identities: the server creates machines and writes projects, the nodes read projects.\n"
         "data \"azurerm_client_config\" \"current\" {}\n\n" +
         azure_resource_terraform(cluster, "azurerm_user_assigned_identity", "server", cluster.name() + "-cyclecloud")
             .str() +
         "\n" +
         azure_resource_terraform(cluster, "azurerm_user_assigned_identity", "nodes", cluster.name() + "-nodes").str() +
         "\n" + role(cluster, "machines", azure_group_terraform(cluster, "id"), kMachineActions) + "\n" +
         role(cluster, "reads", "\"/subscriptions/${data.azurerm_client_config.current.subscription_id}\"",
              kReadActions) +
         "\n" + container_role("server_writes", "Storage Blob Data Contributor", "server") + "\n" +
         container_role("nodes_read", "Storage Blob Data Reader", "nodes");
}

std::string server(const Cluster& cluster) {
  const ClusterOptions& options = cluster.options;
  const std::string image = kImage;
  const size_t one = image.find(':'), two = image.find(':', one + 1);
  const std::string publisher = image.substr(0, one), offer = image.substr(one + 1, two - one - 1),
                    sku = image.substr(two + 1);
  Hcl terms("resource", {"azurerm_marketplace_agreement", "server"});
  terms.set("count", "var.accept_terms ? 1 : 0").text("publisher", publisher).text("offer", offer).text("plan", sku);
  Hcl address = azure_resource_terraform(cluster, "azurerm_public_ip", "server", cluster.name() + "-cyclecloud-ip");
  address.text("allocation_method", "Static").text("sku", "Standard");
  Hcl card =
          azure_resource_terraform(cluster, "azurerm_network_interface", "server", cluster.name() + "-cyclecloud-nic"),
      inside("ip_configuration");
  inside.text("name", "ipconfig1")
      .set("subnet_id", "azurerm_subnet.nodes.id")
      .text("private_ip_address_allocation", "Static")
      .text("private_ip_address", first_address(options))
      .set("public_ip_address_id", "azurerm_public_ip.server.id");
  card.comment(
          "checkov:skip=CKV_AZURE_119: the one machine that is reached from outside, by ssh from allowed addresses")
      .block(inside);

  Hcl machine =
      azure_resource_terraform(cluster, "azurerm_linux_virtual_machine", "server", cluster.name() + "-cyclecloud");
  machine.set("size", "var.server_size")
      .set("network_interface_ids", "[azurerm_network_interface.server.id]")
      .text("admin_username", options.access.user)
      .flag("disable_password_authentication", true)
      .flag("allow_extension_operations", false)
      .set("custom_data",
           "base64encode(templatefile(\"${path.module}/cloud-init/server.yaml.tftpl\", {\n"
           "  subscription    = data.azurerm_client_config.current.subscription_id\n"
           "  tenant          = data.azurerm_client_config.current.tenant_id\n"
           "  client_id       = azurerm_user_assigned_identity.server.client_id\n"
           "  locker_identity = azurerm_user_assigned_identity.nodes.id\n"
           "  account         = azurerm_storage_account.locker.name\n"
           "  container       = azurerm_storage_container.locker.name\n"
           "  group           = " +
               azure_group_terraform(cluster, "name") +
               "\n"
               "  location        = local.region\n"
               "  subnet          = \"${" +
               azure_group_terraform(cluster, "name") +
               "}/${azurerm_virtual_network.cluster.name}/${azurerm_subnet.nodes.name}\"\n"
               "  start           = var.start\n"
               "  files           = local.project_files\n"
               "}))");
  Hcl disk("os_disk"), reference("source_image_reference"), plan("plan"), identity("identity");
  disk.text("name", cluster.name() + "-cyclecloud-os")
      .text("caching", "ReadWrite")
      .text("storage_account_type", "Premium_LRS")
      .set("disk_size_gb", "128");
  reference.text("publisher", publisher).text("offer", offer).text("sku", sku).text("version", "latest");
  plan.text("publisher", publisher).text("product", offer).text("name", sku);
  identity.text("type", "UserAssigned")
      .set("identity_ids", "[azurerm_user_assigned_identity.server.id, azurerm_user_assigned_identity.nodes.id]");
  Hcl cycle("lifecycle");
  cycle.comment("The server has the state of its clusters: a changed document must not replace it.")
      .set("ignore_changes", "[custom_data, source_image_reference]");
  machine.block(azure_key_terraform(cluster))
      .block(disk)
      .block(reference)
      .block(plan)
      .block(identity)
      .block(cycle)
      .set("depends_on",
           "[\n  azurerm_marketplace_agreement.server,\n  azurerm_subnet_network_security_group_association.nodes,\n"
           "  azurerm_subnet_nat_gateway_association.nodes,\n  azurerm_storage_blob.project,\n"
           "  azurerm_role_assignment.machines,\n  azurerm_role_assignment.reads,\n"
           "  azurerm_role_assignment.server_writes,\n  azurerm_role_assignment.nodes_read,\n]");
  return terms.str() + "\n" + address.str() + "\n" + card.str() + "\n" + machine.str();
}

/// A cloud-init document in which Terraform replaces ${...}; everything else is written so that it stays.
std::string document(const Cluster& cluster) {
  const std::string& user = cluster.options.access.user;
  return fmt::format(
      "#cloud-config\n"
      "# The CycleCloud server of the cluster {0}; made by `trireme cluster plan --format terraform`.\n"
      "users:\n"
      "  - name: {1}\n"
      "    shell: /bin/bash\n"
      "    sudo: \"ALL=(ALL) NOPASSWD:ALL\"\n"
      "    lock_passwd: true\n"
      "    ssh_authorized_keys:\n"
      "      - \"{2}\"\n"
      "ssh_pwauth: false\n"
      "write_files:\n"
      "  - path: /etc/trireme/cyclecloud.env\n"
      "    permissions: \"0600\"\n"
      "    content: |\n"
      "      TRIREME_CLUSTER={0}\n"
      "      TRIREME_ADMIN={1}\n"
      "      TRIREME_KEY={4}\n"
      "      TRIREME_SUBSCRIPTION=${{subscription}}\n"
      "      TRIREME_TENANT=${{tenant}}\n"
      "      TRIREME_CLIENT_ID=${{client_id}}\n"
      "      TRIREME_LOCKER_IDENTITY=${{locker_identity}}\n"
      "      TRIREME_ACCOUNT=${{account}}\n"
      "      TRIREME_CONTAINER=${{container}}\n"
      "      TRIREME_GROUP=${{group}}\n"
      "      TRIREME_LOCATION=${{location}}\n"
      "      TRIREME_SUBNET=${{subnet}}\n"
      "      TRIREME_START=${{start}}\n"
      "  - path: /etc/trireme/cyclecloud.files\n"
      "    permissions: \"0600\"\n"
      "    content: |\n"
      "      ${{join(\"\\n      \", files)}}\n"
      "  - path: /usr/local/sbin/trireme-cyclecloud\n"
      "    permissions: \"0700\"\n"
      "    content: |\n"
      "{3}"
      "runcmd:\n"
      "  - [sh, -c, \"/usr/local/sbin/trireme-cyclecloud >>/var/log/trireme-cyclecloud.log 2>&1\"]\n",
      cluster.name(), user, template_text(cluster.public_key), indented(template_text(cyclecloud_server_script()), 6),
      template_text(shell_quote(cluster.public_key)));
}

std::string outputs(const Cluster& cluster) {
  const std::string& user = cluster.options.access.user;
  const std::string at = user + "@${azurerm_public_ip.server.ip_address}";
  Hcl tunnel("output", {"tunnel"}), password("output", {"password"}), log("output", {"log"});
  tunnel.text("description", "makes the server's page https://localhost:8443 on this machine")
      .set("value", "\"ssh -N -L 8443:localhost:8443 " + at + "\"");
  password.text("description", "shows the administrator's password, which was created on the server")
      .set("value", "\"ssh " + at + " sudo cat /root/trireme/password\"");
  log.text("description", "follows the set-up of the server")
      .set("value", "\"ssh " + at + " sudo tail -f /var/log/trireme-cyclecloud.log\"");
  return tunnel.str() + "\n" + password.str() + "\n" + log.str();
}

}  // namespace

std::vector<PlanFile> cyclecloud_terraform(const Cluster& cluster) {
  std::vector<PlanFile> files;
  std::vector<std::string> names;
  const std::string folder = "cyclecloud/";
  for (PlanFile& file : cyclecloud_plan(cluster)) {
    if (!file.path.starts_with(folder)) continue;
    names.push_back(file.path.substr(folder.size()));
    const std::string& name = names.back();
    require(name.find_first_not_of(kPathCharacters) == std::string::npos, ErrorKind::config,
            "software.package: the server fetches {} by its name, which has characters other than letters, digits and "
            "\"._+~-\"; rename the file",
            name.substr(name.rfind('/') + 1));
    files.push_back(std::move(file));
  }
  files.insert(files.begin(), {{"versions.tf", azure_versions_terraform(cluster, true), false},
                               {"variables.tf", variables(cluster), false},
                               {"network.tf", azure_network_terraform(cluster, true, {"Microsoft.Storage"}), false},
                               {"locker.tf", locker(cluster, names), false},
                               {"identities.tf", identities(cluster), false},
                               {"server.tf", server(cluster), false},
                               {"outputs.tf", outputs(cluster), false},
                               {"cloud-init/server.yaml.tftpl", document(cluster), false},
                               {"key.pub", cluster.public_key + "\n", false}});
  return files;
}

}  // namespace trireme::cloud
