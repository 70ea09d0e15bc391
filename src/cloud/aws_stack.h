#pragma once
// A cluster on AWS: one CloudFormation stack, which contains all its resources.

#include <string>
#include <vector>

#include "cloud/layout.h"
#include "cloud/node_files.h"

namespace trireme::cloud {

/// Text of stack.yaml.
std::string aws_stack(const Cluster& cluster, const SharedFolder& shared, const End& end);

/// node.image, or Ubuntu's path in the parameter store.
std::string aws_image(const ClusterOptions& options);
/// The pinned root device, else by the image's name: /dev/xvda for Debian, /dev/sda1 for Ubuntu.
std::string aws_root_device(const Cluster& cluster);

/// Name of the stack: trireme-NAME.
std::string aws_stack_name(const Cluster& cluster);

/// aws cloudformation ACTION (create-stack or update-stack) of the template in `folder`, which is empty or ends with
/// "/".
std::vector<std::string> aws_stack_words(const Cluster& cluster, const std::string& action, const std::string& folder);

/// Text of commands.sh.
std::string aws_script(const Cluster& cluster);

}  // namespace trireme::cloud
