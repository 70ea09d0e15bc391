## network.tf
locals {
  region = "eastus"
}

locals {
  tags = {
    "trireme-cluster" = "sea"
    "trireme-run"     = "8f3f307572b9"
    "owner"           = "you"
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

# Storage that only the nodes can reach.
resource "azurerm_storage_account" "shared" {
  name                = "trireme8f3f307572b9"
  resource_group_name = azurerm_resource_group.cluster.name
  location            = local.region
  tags                = local.tags
  # checkov:skip=CKV2_AZURE_1: encrypted with Microsoft's key; a key of your own needs a key vault
  # checkov:skip=CKV2_AZURE_33: the subnet reaches it through its service endpoint
  # checkov:skip=CKV_AZURE_59: only the subnet reaches it, by the rule below
  # checkov:skip=CKV2_AZURE_38: it has files, which are kept for a week, and no blobs
  # checkov:skip=CKV_AZURE_206: premium files have three copies in one place; copies elsewhere would cost more
  account_kind                    = "FileStorage"
  account_tier                    = "Premium"
  account_replication_type        = "LRS"
  min_tls_version                 = "TLS1_2"
  allow_nested_items_to_be_public = false
  shared_access_key_enabled       = false
  # NFS has no https; the network rule below is what protects it.
  https_traffic_only_enabled = false

  network_rules {
    default_action             = "Deny"
    virtual_network_subnet_ids = [azurerm_subnet.nodes.id]
  }

  share_properties {
    retention_policy {
      days = 7
    }
  }
}

resource "azurerm_storage_share" "shared" {
  name               = "cluster"
  storage_account_id = azurerm_storage_account.shared.id
  enabled_protocol   = "NFS"
  quota              = 256
}
## nodes.tf
locals {
  nodes = {
    "sea-1" = { address = "10.60.0.4", size = "Standard_D2s_v5", head = true, public = true, spot = false }
    "sea-2" = { address = "10.60.0.5", size = "Standard_HB120rs_v3", head = false, public = false, spot = false }
  }
}

# One InfiniBand network for all.
resource "azurerm_availability_set" "cluster" {
  name                        = "sea-set"
  resource_group_name         = azurerm_resource_group.cluster.name
  location                    = local.region
  tags                        = local.tags
  platform_fault_domain_count = 2
}

resource "azurerm_public_ip" "node" {
  for_each            = { for name, node in local.nodes : name => node if node.public }
  name                = "${each.key}-ip"
  resource_group_name = azurerm_resource_group.cluster.name
  location            = local.region
  allocation_method   = "Static"
  sku                 = "Standard"
  tags                = local.tags
}

resource "azurerm_network_interface" "node" {
  # checkov:skip=CKV_AZURE_119: only machines that are to be reached from outside have a public address
  for_each                       = local.nodes
  name                           = "${each.key}-nic"
  resource_group_name            = azurerm_resource_group.cluster.name
  location                       = local.region
  tags                           = local.tags
  accelerated_networking_enabled = !contains(["Standard_D2s_v5"], each.value.size)

  ip_configuration {
    name                          = "ipconfig1"
    subnet_id                     = azurerm_subnet.nodes.id
    private_ip_address_allocation = "Static"
    private_ip_address            = each.value.address
    public_ip_address_id          = each.value.public ? azurerm_public_ip.node[each.key].id : null
  }
}

resource "azurerm_linux_virtual_machine" "node" {
  # checkov:skip=CKV_AZURE_50: the machine's agent tells `trireme cluster create` the host keys (az vm run-command)
  for_each                        = local.nodes
  name                            = each.key
  resource_group_name             = azurerm_resource_group.cluster.name
  location                        = local.region
  size                            = each.value.size
  network_interface_ids           = [azurerm_network_interface.node[each.key].id]
  availability_set_id             = azurerm_availability_set.cluster.id
  admin_username                  = "trireme"
  disable_password_authentication = true
  allow_extension_operations      = true
  custom_data                     = filebase64("${path.module}/cloud-init/node.yaml")
  priority                        = each.value.spot ? "Spot" : "Regular"
  eviction_policy                 = each.value.spot ? "Delete" : null
  max_bid_price                   = each.value.spot ? -1 : null
  tags                            = local.tags

  admin_ssh_key {
    username   = "trireme"
    public_key = trimspace(file("${path.module}/key.pub"))
  }

  os_disk {
    name                 = "${each.key}-os"
    caching              = "ReadWrite"
    storage_account_type = contains(["Standard_D2s_v5", "Standard_HB120rs_v3"], each.value.size) ? "Premium_LRS" : "StandardSSD_LRS"
    disk_size_gb         = 64
  }

  source_image_reference {
    publisher = "Canonical"
    offer     = "ubuntu-24_04-lts"
    sku       = "server"
    version   = "latest"
  }

  dynamic "identity" {
    for_each = each.value.head ? [1] : []

    content {
      type = "SystemAssigned"
    }
  }

  lifecycle {
    # A changed document or image must not replace machines that work.
    ignore_changes = [custom_data, source_image_reference]
  }

  depends_on = [azurerm_subnet_network_security_group_association.nodes, azurerm_subnet_nat_gateway_association.nodes, azurerm_storage_share.shared]
}

# What the head may delete at the end of its lifetime: only this group.
resource "azurerm_role_assignment" "end" {
  scope                = azurerm_resource_group.cluster.id
  role_definition_name = "Contributor"
  principal_id         = azurerm_linux_virtual_machine.node["sea-1"].identity[0].principal_id
}
## outputs.tf
output "addresses" {
  description = "public addresses of the machines that have one"
  value       = { for name, address in azurerm_public_ip.node : name => address.ip_address }
}

output "ssh" {
  description = "how to log in to the head"
  value       = "ssh trireme@${azurerm_public_ip.node["sea-1"].ip_address}"
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
  subscription_id = var.subscription_id

  features {}
}

variable "subscription_id" {
  description = "the subscription that pays (null: ARM_SUBSCRIPTION_ID)"
  type        = string
  default     = null
}
