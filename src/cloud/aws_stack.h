#pragma once
// A cluster on AWS: one CloudFormation stack, which contains all its resources.

#include <string>
#include <vector>

#include "cloud/layout.h"
#include "cloud/node_files.h"

namespace trireme::cloud {

/// Text of stack.yaml.
std::string aws_stack(const Cluster& cluster, const SharedFolder& shared, const End& end);

/// node.image, or Ubuntu's path in the parameter store, for GPUs that with their driver.
std::string aws_image(const ClusterOptions& options);
/// The pinned root device, else by the image's name: /dev/xvda for Debian, /dev/sda1 for Ubuntu.
std::string aws_root_device(const Cluster& cluster);

/// The range of the NAT gateway's subnet: any network may use a part of it, whatever its own range is.
inline constexpr const char* kAwsNatRange = "100.64.0.0/28";
/// Whether a size may be in a placement group: burstable ones may not.
bool is_placed_on_aws(const std::string& type);

/// Network of a machine: whether it has Elastic Fabric Adapters, and its network cards, each of which then has one.
struct AwsCards {
  bool fast = false;
  int cards = 1;
  /// Type of the interface on a card: only the first one of many has an address.
  const char* interface_type(int card) const { return card > 0 && cards > 2 ? "efa-only" : "efa"; }
};
AwsCards aws_cards(const ClusterOptions& options, const Node& node);

/// Name of the stack: trireme-NAME.
std::string aws_stack_name(const Cluster& cluster);

/// aws cloudformation ACTION (create-stack or update-stack) of the template in `folder`, which is empty or ends with
/// "/".
std::vector<std::string> aws_stack_words(const Cluster& cluster, const std::string& action, const std::string& folder);

/// Text of commands.sh.
std::string aws_script(const Cluster& cluster);

}  // namespace trireme::cloud
