#pragma once
// A cluster on AWS: one CloudFormation stack, which has and ends all that belongs to it.

#include <string>
#include <vector>

#include "cloud/layout.h"
#include "cloud/node_files.h"

namespace trireme::cloud {

/// stack.yaml.
std::string aws_stack(const Cluster& cluster, const SharedFolder& shared, const End& end);

/// node.image, or Ubuntu's path in the parameter store.
std::string aws_image(const ClusterOptions& options);
/// As pinned, else by the image's name: Debian starts from /dev/xvda, Ubuntu from /dev/sda1.
std::string aws_root_device(const Cluster& cluster);

/// Name of the stack: trireme-NAME.
std::string aws_stack_name(const Cluster& cluster);

/// aws cloudformation ACTION (create-stack or update-stack) of the template in `folder`, which is empty or ends with
/// "/".
std::vector<std::string> aws_stack_words(const Cluster& cluster, const std::string& action, const std::string& folder);

/// commands.sh.
std::string aws_script(const Cluster& cluster);

}  // namespace trireme::cloud
