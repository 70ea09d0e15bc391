## identities.tf
# Two identities: the server creates machines and writes projects, the nodes read projects.
data "azurerm_client_config" "current" {}

resource "azurerm_user_assigned_identity" "server" {
  name                = "sea-cyclecloud"
  resource_group_name = azurerm_resource_group.cluster.name
  location            = local.region
  tags                = local.tags
}

resource "azurerm_user_assigned_identity" "nodes" {
  name                = "sea-nodes"
  resource_group_name = azurerm_resource_group.cluster.name
  location            = local.region
  tags                = local.tags
}

resource "azurerm_role_definition" "machines" {
  name              = "trireme sea 8f3f307572b9 machines"
  scope             = azurerm_resource_group.cluster.id
  assignable_scopes = [azurerm_resource_group.cluster.id]

  permissions {
    actions = [
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
    ]
  }
}

resource "azurerm_role_assignment" "machines" {
  scope              = azurerm_resource_group.cluster.id
  role_definition_id = azurerm_role_definition.machines.role_definition_resource_id
  principal_id       = azurerm_user_assigned_identity.server.principal_id
  principal_type     = "ServicePrincipal"
}

resource "azurerm_role_definition" "reads" {
  name              = "trireme sea 8f3f307572b9 reads"
  scope             = "/subscriptions/${data.azurerm_client_config.current.subscription_id}"
  assignable_scopes = ["/subscriptions/${data.azurerm_client_config.current.subscription_id}"]

  permissions {
    actions = [
      "Microsoft.Commerce/RateCard/read",
      "Microsoft.Compute/images/read",
      "Microsoft.Compute/locations/*/read",
      "Microsoft.Compute/skus/read",
      "Microsoft.Network/locations/*/read",
      "Microsoft.Resources/subscriptions/operationresults/read",
      "Microsoft.Resources/subscriptions/resourceGroups/read",
      "Microsoft.Storage/checknameavailability/read",
    ]
  }
}

resource "azurerm_role_assignment" "reads" {
  scope              = "/subscriptions/${data.azurerm_client_config.current.subscription_id}"
  role_definition_id = azurerm_role_definition.reads.role_definition_resource_id
  principal_id       = azurerm_user_assigned_identity.server.principal_id
  principal_type     = "ServicePrincipal"
}

resource "azurerm_role_assignment" "server_writes" {
  scope                = azurerm_storage_container.locker.id
  role_definition_name = "Storage Blob Data Contributor"
  principal_id         = azurerm_user_assigned_identity.server.principal_id
  principal_type       = "ServicePrincipal"
}

resource "azurerm_role_assignment" "nodes_read" {
  scope                = azurerm_storage_container.locker.id
  role_definition_name = "Storage Blob Data Reader"
  principal_id         = azurerm_user_assigned_identity.nodes.principal_id
  principal_type       = "ServicePrincipal"
}
## locker.tf
resource "azurerm_storage_account" "locker" {
  name                = "trireme8f3f307572b9"
  resource_group_name = azurerm_resource_group.cluster.name
  location            = local.region
  tags                = local.tags
  # checkov:skip=CKV2_AZURE_1: encrypted with Microsoft's key; a key of your own needs a key vault
  # checkov:skip=CKV2_AZURE_33: the subnet reaches it through its service endpoint
  # checkov:skip=CKV_AZURE_59: only the subnet and the allowed addresses reach it, by the rules below
  # checkov:skip=CKV_AZURE_206: the project can be uploaded again, so one copy suffices
  # checkov:skip=CKV_AZURE_33: it has no queues
  account_kind                    = "StorageV2"
  account_tier                    = "Standard"
  account_replication_type        = "LRS"
  min_tls_version                 = "TLS1_2"
  https_traffic_only_enabled      = true
  allow_nested_items_to_be_public = false
  # The account has no keys: all access is by identity.
  shared_access_key_enabled         = false
  default_to_oauth_authentication   = true
  infrastructure_encryption_enabled = true

  network_rules {
    default_action = "Deny"
    # Azure takes single addresses without /32.
    ip_rules                   = [for source in var.allowed_sources : trimsuffix(source, "/32")]
    virtual_network_subnet_ids = [azurerm_subnet.nodes.id]
  }

  blob_properties {
    delete_retention_policy {
      days = 7
    }
  }

  sas_policy {
    expiration_period = "00.01:00:00"
    expiration_action = "Log"
  }
}

resource "azurerm_storage_container" "locker" {
  # checkov:skip=CKV2_AZURE_21: logs of reads cost money; turn them on with a workspace of your own
  name                  = "cyclecloud"
  storage_account_id    = azurerm_storage_account.locker.id
  container_access_type = "private"
}

# The user who runs Terraform uploads the project.
resource "azurerm_role_assignment" "upload" {
  scope                = azurerm_storage_account.locker.id
  role_definition_name = "Storage Blob Data Contributor"
  principal_id         = data.azurerm_client_config.current.object_id
}

locals {
  project_files = [
    "project.ini",
    "templates/trireme.txt",
    "parameters.json",
    "specs/default/cluster-init/scripts/010-trireme.sh",
    "specs/default/cluster-init/scripts/020-health.sh",
    "specs/default/cluster-init/files/trireme_1_amd64.deb",
  ]
}

resource "azurerm_storage_blob" "project" {
  for_each               = toset(local.project_files)
  name                   = "trireme/${each.key}"
  storage_account_name   = azurerm_storage_account.locker.name
  storage_container_name = azurerm_storage_container.locker.name
  type                   = "Block"
  source                 = "${path.module}/cyclecloud/${each.key}"
  content_md5            = filemd5("${path.module}/cyclecloud/${each.key}")
  depends_on             = [azurerm_role_assignment.upload]
}
## network.tf
locals {
  region = "eastus"
}

locals {
  tags = {
    "trireme-cluster" = "sea"
    "trireme-run"     = "8f3f307572b9"
  }
}

resource "azurerm_resource_group" "cluster" {
  name     = "trireme-sea"
  location = local.region
  tags     = local.tags
}

# ssh from the allowed addresses only.
resource "azurerm_network_security_group" "cluster" {
  name                = "sea-nsg"
  resource_group_name = azurerm_resource_group.cluster.name
  location            = local.region
  tags                = local.tags

  security_rule {
    name                       = "ssh"
    priority                   = 1000
    direction                  = "Inbound"
    access                     = "Allow"
    protocol                   = "Tcp"
    source_port_range          = "*"
    destination_port_range     = "22"
    source_address_prefixes    = var.allowed_sources
    destination_address_prefix = "*"
  }
}

resource "azurerm_virtual_network" "cluster" {
  name                = "sea-vnet"
  resource_group_name = azurerm_resource_group.cluster.name
  location            = local.region
  tags                = local.tags
  address_space       = ["10.60.0.0/24"]
}

resource "azurerm_subnet" "nodes" {
  name                            = "nodes"
  resource_group_name             = azurerm_resource_group.cluster.name
  virtual_network_name            = azurerm_virtual_network.cluster.name
  address_prefixes                = ["10.60.0.0/24"]
  default_outbound_access_enabled = false
  service_endpoints               = ["Microsoft.Storage"]
}

resource "azurerm_subnet_network_security_group_association" "nodes" {
  subnet_id                 = azurerm_subnet.nodes.id
  network_security_group_id = azurerm_network_security_group.cluster.id
}

# Machines without a public address get packages and models through it.
resource "azurerm_public_ip" "nat" {
  name                = "sea-nat-ip"
  resource_group_name = azurerm_resource_group.cluster.name
  location            = local.region
  tags                = local.tags
  allocation_method   = "Static"
  sku                 = "Standard"
}

resource "azurerm_nat_gateway" "cluster" {
  name                    = "sea-nat"
  resource_group_name     = azurerm_resource_group.cluster.name
  location                = local.region
  tags                    = local.tags
  sku_name                = "Standard"
  idle_timeout_in_minutes = 10
}

resource "azurerm_nat_gateway_public_ip_association" "cluster" {
  nat_gateway_id       = azurerm_nat_gateway.cluster.id
  public_ip_address_id = azurerm_public_ip.nat.id
}

resource "azurerm_subnet_nat_gateway_association" "nodes" {
  # Machines wait for this, and this waits for the gateway's address: without it they have no internet access.
  subnet_id      = azurerm_subnet.nodes.id
  nat_gateway_id = azurerm_nat_gateway.cluster.id
  depends_on     = [azurerm_nat_gateway_public_ip_association.cluster]
}
## outputs.tf
output "tunnel" {
  description = "makes the server's page https://localhost:8443 on this machine"
  value       = "ssh -N -L 8443:localhost:8443 trireme@${azurerm_public_ip.server.ip_address}"
}

output "password" {
  description = "shows the administrator's password, which was created on the server"
  value       = "ssh trireme@${azurerm_public_ip.server.ip_address} sudo cat /root/trireme/password"
}

output "log" {
  description = "follows the set-up of the server"
  value       = "ssh trireme@${azurerm_public_ip.server.ip_address} sudo tail -f /var/log/trireme-cyclecloud.log"
}
## server.tf
resource "azurerm_marketplace_agreement" "server" {
  count     = var.accept_terms ? 1 : 0
  publisher = "azurecyclecloud"
  offer     = "azure-cyclecloud"
  plan      = "cyclecloud8-gen2"
}

resource "azurerm_public_ip" "server" {
  name                = "sea-cyclecloud-ip"
  resource_group_name = azurerm_resource_group.cluster.name
  location            = local.region
  tags                = local.tags
  allocation_method   = "Static"
  sku                 = "Standard"
}

resource "azurerm_network_interface" "server" {
  name                = "sea-cyclecloud-nic"
  resource_group_name = azurerm_resource_group.cluster.name
  location            = local.region
  tags                = local.tags
  # checkov:skip=CKV_AZURE_119: the one machine that is reached from outside, by ssh from allowed addresses
  ip_configuration {
    name                          = "ipconfig1"
    subnet_id                     = azurerm_subnet.nodes.id
    private_ip_address_allocation = "Static"
    private_ip_address            = "10.60.0.4"
    public_ip_address_id          = azurerm_public_ip.server.id
  }
}

resource "azurerm_linux_virtual_machine" "server" {
  name                            = "sea-cyclecloud"
  resource_group_name             = azurerm_resource_group.cluster.name
  location                        = local.region
  tags                            = local.tags
  size                            = var.server_size
  network_interface_ids           = [azurerm_network_interface.server.id]
  admin_username                  = "trireme"
  disable_password_authentication = true
  allow_extension_operations      = false
  custom_data = base64encode(templatefile("${path.module}/cloud-init/server.yaml.tftpl", {
    subscription    = data.azurerm_client_config.current.subscription_id
    tenant          = data.azurerm_client_config.current.tenant_id
    client_id       = azurerm_user_assigned_identity.server.client_id
    locker_identity = azurerm_user_assigned_identity.nodes.id
    account         = azurerm_storage_account.locker.name
    container       = azurerm_storage_container.locker.name
    group           = azurerm_resource_group.cluster.name
    location        = local.region
    subnet          = "${azurerm_resource_group.cluster.name}/${azurerm_virtual_network.cluster.name}/${azurerm_subnet.nodes.name}"
    start           = var.start
    files           = local.project_files
  }))

  admin_ssh_key {
    username   = "trireme"
    public_key = trimspace(file("${path.module}/key.pub"))
  }

  os_disk {
    name                 = "sea-cyclecloud-os"
    caching              = "ReadWrite"
    storage_account_type = "Premium_LRS"
    disk_size_gb         = 128
  }

  source_image_reference {
    publisher = "azurecyclecloud"
    offer     = "azure-cyclecloud"
    sku       = "cyclecloud8-gen2"
    version   = "latest"
  }

  plan {
    publisher = "azurecyclecloud"
    product   = "azure-cyclecloud"
    name      = "cyclecloud8-gen2"
  }

  identity {
    type         = "UserAssigned"
    identity_ids = [azurerm_user_assigned_identity.server.id, azurerm_user_assigned_identity.nodes.id]
  }

  lifecycle {
    # The server has the state of its clusters: a changed document must not replace it.
    ignore_changes = [custom_data, source_image_reference]
  }

  depends_on = [
    azurerm_marketplace_agreement.server,
    azurerm_subnet_network_security_group_association.nodes,
    azurerm_subnet_nat_gateway_association.nodes,
    azurerm_storage_blob.project,
    azurerm_role_assignment.machines,
    azurerm_role_assignment.reads,
    azurerm_role_assignment.server_writes,
    azurerm_role_assignment.nodes_read,
  ]
}
## variables.tf
variable "allowed_sources" {
  description = "addresses that may connect by ssh (access.from)"
  type        = list(string)
  default     = ["198.51.100.7/32", "203.0.113.0/24"]

  validation {
    condition     = length(var.allowed_sources) > 0 && alltrue([for s in var.allowed_sources : can(cidrhost(s, 0)) && tonumber(split("/", s)[1]) >= 8])
    error_message = "Name networks such as 203.0.113.7/32, and not the whole internet."
  }
}

variable "server_size" {
  description = "size of the CycleCloud server"
  type        = string
  default     = "Standard_D4s_v5"
}

variable "start" {
  description = "start the cluster's machines, which cost money, as soon as the server is ready"
  type        = bool
  default     = false
}

variable "accept_terms" {
  description = "accept the terms of the image azurecyclecloud:azure-cyclecloud:cyclecloud8-gen2; false if your subscription has accepted them"
  type        = bool
  default     = true
}
## versions.tf
# The cluster sea on Azure; made by `trireme cluster plan --format terraform`.
terraform {
  required_version = ">= 1.5"

  required_providers {
    azurerm = {
      source  = "hashicorp/azurerm"
      version = "~> 4.20"
    }
  }
}

provider "azurerm" {
  # The login is that of `az login`; the subscription is ARM_SUBSCRIPTION_ID or the variable.
  subscription_id     = var.subscription_id
  storage_use_azuread = true

  features {}
}

variable "subscription_id" {
  description = "the subscription that pays (null: ARM_SUBSCRIPTION_ID)"
  type        = string
  default     = null
}
