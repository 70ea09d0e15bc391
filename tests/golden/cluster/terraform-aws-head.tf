## network.tf
locals {
  tags = {
    "trireme-cluster" = "sea"
    "trireme-run"     = "8f3f307572b9"
  }
}

# Zones that offer all sizes.
data "aws_ec2_instance_type_offerings" "size" {
  for_each      = toset(["hpc7a.96xlarge"])
  location_type = "availability-zone"

  filter {
    name   = "instance-type"
    values = [each.key]
  }
}

locals {
  zones = sort(setintersection([for size in data.aws_ec2_instance_type_offerings.size : toset(size.locations)]...))
  zone  = "us-east-2b"
}

resource "aws_vpc" "cluster" {
  tags = merge(local.tags, { Name = "sea" })
  # checkov:skip=CKV2_AWS_11: flow logs cost money and the cluster has one user; add aws_flow_log if you keep them
  cidr_block           = "10.60.0.0/24"
  enable_dns_support   = true
  enable_dns_hostnames = true
}

resource "aws_default_security_group" "closed" {
  # The default group of the network is not used: it allows no traffic.
  vpc_id = aws_vpc.cluster.id
}

resource "aws_internet_gateway" "cluster" {
  tags   = merge(local.tags, { Name = "sea" })
  vpc_id = aws_vpc.cluster.id
}

resource "aws_route_table" "nodes" {
  tags   = merge(local.tags, { Name = "sea" })
  vpc_id = aws_vpc.cluster.id
}

resource "aws_subnet" "nodes" {
  tags              = merge(local.tags, { Name = "sea" })
  vpc_id            = aws_vpc.cluster.id
  cidr_block        = "10.60.0.0/24"
  availability_zone = local.zone

  lifecycle {
    # The zone stays as it was chosen while the cluster exists.
    ignore_changes = [availability_zone]

    precondition {
      condition     = contains(local.zones, local.zone)
      error_message = "No zone of the region, or not the one named, offers all sizes of the cluster."
    }
  }
}

resource "aws_route_table_association" "nodes" {
  subnet_id      = aws_subnet.nodes.id
  route_table_id = aws_route_table.nodes.id
}

resource "aws_vpc_ipv4_cidr_block_association" "nat" {
  vpc_id     = aws_vpc.cluster.id
  cidr_block = "100.64.0.0/28"
}

resource "aws_subnet" "nat" {
  tags              = merge(local.tags, { Name = "sea" })
  vpc_id            = aws_vpc_ipv4_cidr_block_association.nat.vpc_id
  cidr_block        = "100.64.0.0/28"
  availability_zone = aws_subnet.nodes.availability_zone
}

resource "aws_route_table" "nat" {
  tags   = merge(local.tags, { Name = "sea" })
  vpc_id = aws_vpc.cluster.id
}

resource "aws_route" "nat" {
  route_table_id         = aws_route_table.nat.id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.cluster.id
}

resource "aws_route_table_association" "nat" {
  subnet_id      = aws_subnet.nat.id
  route_table_id = aws_route_table.nat.id
}

resource "aws_eip" "nat" {
  tags       = merge(local.tags, { Name = "sea" })
  domain     = "vpc"
  depends_on = [aws_internet_gateway.cluster]
}

resource "aws_nat_gateway" "cluster" {
  tags          = merge(local.tags, { Name = "sea" })
  allocation_id = aws_eip.nat.id
  subnet_id     = aws_subnet.nat.id
  depends_on    = [aws_route.nat, aws_route_table_association.nat]
}

resource "aws_route" "out" {
  route_table_id         = aws_route_table.nodes.id
  destination_cidr_block = "0.0.0.0/0"
  nat_gateway_id         = aws_nat_gateway.cluster.id
}

# Replies of the head's ssh leave through the gateway that has its address.
resource "aws_route" "caller" {
  for_each               = toset(var.allowed_sources)
  route_table_id         = aws_route_table.nodes.id
  destination_cidr_block = each.key
  gateway_id             = aws_internet_gateway.cluster.id
}

# The fabric adapter needs a group that is open to itself in both directions.
resource "aws_security_group" "cluster" {
  tags        = merge(local.tags, { Name = "sea" })
  name        = "trireme-sea"
  description = "ssh from the caller, everything among the nodes"
  vpc_id      = aws_vpc.cluster.id
}

resource "aws_vpc_security_group_ingress_rule" "ssh" {
  for_each          = toset(var.allowed_sources)
  security_group_id = aws_security_group.cluster.id
  description       = "ssh of the caller"
  cidr_ipv4         = each.key
  ip_protocol       = "tcp"
  from_port         = 22
  to_port           = 22
}

resource "aws_vpc_security_group_ingress_rule" "nodes" {
  security_group_id            = aws_security_group.cluster.id
  description                  = "everything among the nodes"
  referenced_security_group_id = aws_security_group.cluster.id
  ip_protocol                  = "-1"
}

resource "aws_vpc_security_group_egress_rule" "nodes" {
  security_group_id            = aws_security_group.cluster.id
  description                  = "everything among the nodes"
  referenced_security_group_id = aws_security_group.cluster.id
  ip_protocol                  = "-1"
}

resource "aws_vpc_security_group_egress_rule" "internet" {
  security_group_id = aws_security_group.cluster.id
  description       = "packages and models"
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "-1"
}
## nodes.tf
locals {
  nodes = {
    "sea-1" = { address = "10.60.0.4", size = "hpc7a.96xlarge", head = true, public = true, spot = false, efa = true, cards = 2, placed = true, own_card = true }
    "sea-2" = { address = "10.60.0.5", size = "hpc7a.96xlarge", head = false, public = false, spot = false, efa = true, cards = 2, placed = true, own_card = false }
  }
}

resource "aws_placement_group" "cluster" {
  tags     = merge(local.tags, { Name = "sea" })
  name     = "trireme-sea"
  strategy = "cluster"
}

# The first card and the public address of machines with several cards.
resource "aws_network_interface" "node" {
  for_each        = { for name, node in local.nodes : name => node if node.own_card }
  tags            = merge(local.tags, { Name = each.key })
  interface_type  = "efa"
  private_ips     = [each.value.address]
  subnet_id       = aws_subnet.nodes.id
  security_groups = [aws_security_group.cluster.id]
}

resource "aws_eip" "node" {
  for_each          = aws_network_interface.node
  tags              = merge(local.tags, { Name = each.key })
  domain            = "vpc"
  network_interface = each.value.id
  depends_on        = [aws_internet_gateway.cluster]
}

resource "aws_launch_template" "node" {
  # checkov:skip=CKV_AWS_88: only machines that are to be reached from outside have a public address
  for_each = local.nodes
  name     = "trireme-${each.key}"
  tags     = merge(local.tags, { Name = each.key })

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  network_interfaces {
    device_index                = 0
    network_card_index          = 0
    network_interface_id        = each.value.own_card ? aws_network_interface.node[each.key].id : null
    interface_type              = each.value.efa && !each.value.own_card ? "efa" : null
    associate_public_ip_address = each.value.cards > 1 ? null : each.value.public
    private_ip_address          = each.value.own_card ? null : each.value.address
    subnet_id                   = each.value.own_card ? null : aws_subnet.nodes.id
    security_groups             = each.value.own_card ? null : [aws_security_group.cluster.id]
    delete_on_termination       = each.value.own_card ? null : true
  }

  dynamic "network_interfaces" {
    for_each = range(1, each.value.cards)

    content {
      device_index          = 1
      network_card_index    = network_interfaces.value
      interface_type        = each.value.cards > 2 ? "efa-only" : "efa"
      subnet_id             = aws_subnet.nodes.id
      security_groups       = [aws_security_group.cluster.id]
      delete_on_termination = true
    }
  }

  tag_specifications {
    resource_type = "network-interface"
    tags          = merge(local.tags, { Name = each.key })
  }
}

resource "aws_instance" "node" {
  # checkov:skip=CKV_AWS_126: detailed monitoring costs money; trireme health watches the nodes
  # checkov:skip=CKV2_AWS_41: the machines need no rights in the account, so they have no role
  for_each                             = local.nodes
  ami                                  = "ami-0123456789abcdef0"
  instance_type                        = each.value.size
  placement_group                      = each.value.placed ? aws_placement_group.cluster.name : null
  ebs_optimized                        = true
  instance_initiated_shutdown_behavior = "stop"
  user_data_base64                     = base64gzip(file("${path.module}/cloud-init/node.yaml"))
  tags                                 = merge(local.tags, { Name = each.key })
  volume_tags                          = merge(local.tags, { Name = each.key })

  launch_template {
    id      = aws_launch_template.node[each.key].id
    version = aws_launch_template.node[each.key].latest_version
  }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  root_block_device {
    volume_size           = 64
    volume_type           = "gp3"
    encrypted             = true
    delete_on_termination = true
  }

  lifecycle {
    # A newer image or a changed document must not replace machines that work.
    ignore_changes = [ami, user_data_base64]
  }

  depends_on = [aws_route.out, aws_route_table_association.nodes, aws_eip.node]
}
## outputs.tf
output "addresses" {
  description = "public addresses of the machines that have one"
  value       = { for name, machine in aws_instance.node : name => local.nodes[name].own_card ? aws_eip.node[name].public_ip : machine.public_ip if local.nodes[name].public }
}

output "zone" {
  description = "the zone of all machines"
  value       = aws_subnet.nodes.availability_zone
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
# The cluster sea on AWS; made by `trireme cluster plan --format terraform`.
terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.80"
    }
  }
}

provider "aws" {
  # The login is that of `aws configure` or `aws sso login`.
  region = "us-east-2"
}
