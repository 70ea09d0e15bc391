#pragma once
// The plan of a cluster as configuration of Terraform (or OpenTofu): `trireme cluster plan --format terraform`.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/names.h"
#include "cloud/hcl.h"
#include "cloud/provider.h"

namespace trireme::cloud {

enum class PlanFormat : uint8_t { native, terraform };

/// The files of the configuration, made from the options alone: the same options give the same bytes. Throws
/// Error::config for provider hosts, whose machines exist, and for options that Terraform cannot resolve without the
/// provider's command line.
std::vector<PlanFile> terraform_plan(const Cluster& cluster);

/// Lines that say how to use the configuration, for the end of `plan`.
std::string describe_terraform(const Cluster& cluster);

// Parts of them.

/// main.tf and what it needs of Azure: machines (azure_terraform.cc), or a CycleCloud server that creates them
/// (cyclecloud_terraform.cc).
std::vector<PlanFile> azure_terraform(const Cluster& cluster);
std::vector<PlanFile> cyclecloud_terraform(const Cluster& cluster);
std::vector<PlanFile> aws_terraform(const Cluster& cluster);

/// The variable allowed_sources: access.from, without a default if that is `caller` and unknown.
std::string terraform_sources(const Cluster& cluster);
/// tags_of(), as the local value `tags`.
std::string terraform_tags(const Cluster& cluster);
using HclMembers = std::vector<std::pair<std::string, std::string>>;
/// The local value `nodes`: name -> address, size, head, public, spot, and the members that `more` adds to each.
std::string terraform_nodes(const Cluster& cluster, const std::function<HclMembers(const Node&)>& more);

/// Resource group, network, firewall, way out to the internet: what machines of both kinds of clusters on Azure share.
/// `nat`: whether machines reach the internet through a NAT gateway; endpoints: services that the subnet reaches
/// directly.
std::string azure_network_terraform(const Cluster& cluster, bool nat, const std::vector<std::string>& endpoints);
/// A resource of the cluster in its group and region, with its tags.
Hcl azure_resource_terraform(const Cluster& cluster, const char* type, const char* label, const std::string& name);
/// The block of a machine with its user and access.key.
Hcl azure_key_terraform(const Cluster& cluster);
/// versions.tf for azurerm. `storage`: whether it writes into storage accounts, with the user's own rights.
std::string azure_versions_terraform(const Cluster& cluster, bool storage);
/// An attribute of the cluster's resource group, which is shared or belongs to it, as an expression.
std::string azure_group_terraform(const Cluster& cluster, const std::string& attribute);

}  // namespace trireme::cloud

namespace trireme {

template <>
struct Names<cloud::PlanFormat> {
  static constexpr Named<cloud::PlanFormat> kAll[] = {{"native", cloud::PlanFormat::native},
                                                      {"terraform", cloud::PlanFormat::terraform}};
};

}  // namespace trireme
