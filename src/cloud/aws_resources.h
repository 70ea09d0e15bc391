#pragma once
// The resources of a cluster on AWS that its CloudFormation stack and its Terraform configuration describe alike:
// network, way out to the internet, storage, placement. Both are written from this list. Machines and the firewall's
// rules differ too much: a stack lists each of them, Terraform repeats one for all.

#include <string>
#include <utility>
#include <vector>

#include "cloud/layout.h"

namespace trireme::cloud {

/// An expression in both languages.
struct AwsValue {
  std::string stack, terraform;  ///< empty: not written there
};

struct AwsResource {
  /// "Subnet EC2::Subnet", its name and type in the stack; "aws_subnet.nodes". Empty: not written there.
  std::string stack, terraform;
  /// By the stack's names; Terraform's are the same words in lower case with underscores.
  std::vector<std::pair<const char*, AwsValue>> properties;
  const char* tags = "Tags";          ///< the stack's property of its tags
  std::string tag_name = {};          ///< the name among them; empty: it has no tags
  std::string stack_attributes = {};  ///< lines beside its properties
  std::string after = {};             ///< Terraform's depends_on
  std::string comment = {};           ///< only in Terraform

  AwsResource& tagged(const std::string& name) { return tag_name = name, *this; }
  AwsResource& depends(const std::string& in_stack, const std::string& in_terraform = "") {
    return stack_attributes = "DependsOn: " + in_stack, after = in_terraform, *this;
  }
};

/// In two parts, because the stack has the way out between them.
std::vector<AwsResource> aws_network(const Cluster& cluster);
std::vector<AwsResource> aws_subnet(const Cluster& cluster);
/// If every machine has a public address, a route through the internet gateway. If only the head has one, a NAT gateway
/// in its own subnet. All nodes stay in one subnet, as the fabric adapter requires, so answers of the head's ssh have a
/// separate route to each of the caller's networks, which each language lists in its own way.
std::vector<AwsResource> aws_way_out(const Cluster& cluster);
std::vector<AwsResource> aws_storage(const Cluster& cluster);
std::vector<AwsResource> aws_placement(const Cluster& cluster);

}  // namespace trireme::cloud
