#pragma once
// The files of a node: the script that sets it up, its environment, and the cloud-init document with both.

#include <string>
#include <string_view>

#include "cloud/layout.h"

namespace trireme::cloud {

/// src/cloud/node_setup.sh, /usr/local/sbin/trireme-node on a node.
const char* node_setup_script();

/// src/cloud/cyclecloud_server.sh, /usr/local/sbin/trireme-cyclecloud on a CycleCloud server that Terraform creates.
const char* cyclecloud_server_script();

/// The source of a shared folder of the provider.
struct SharedFolder {
  std::string source, options;
};

/// How the machines end automatically: the whole resource group, or each by its shutdown.
struct End {
  std::string how;  ///< "shutdown", or the resource group
};

/// /etc/trireme/node.env of the node; nullptr: the one for all machines of the first `create`, each of which identifies
/// itself by its address.
std::string node_environment(const Cluster& cluster, const Node* node, const SharedFolder& shared, const End& end);

/// A cloud-init document: the user, the script, its environment (node_environment()), and its first run.
std::string cloud_init(const Cluster& cluster, const Node* node, const SharedFolder& shared, const End& end);

/// Base64 of the gzip of the text: EC2 accepts at most 16 KB, and cloud-init unpacks it automatically. The same text
/// gives the same bytes.
std::string packed_user_data(std::string_view text);

/// What a machine says of itself to Slurm.
struct SlurmHardware {
  std::string host_name;  ///< its own name
  bool cgroups = false;   ///< whether jobs can be confined by control groups there
  int gpus = 0;
  std::string line = {};  ///< of `slurmd -C`, after the name
};

/// Reads the line that `trireme-node slurm-hardware` prints. Throws Error::io for another form.
SlurmHardware parse_slurm_hardware(const std::string& text);

/// slurm.conf of the cluster; hardware[i] is for nodes[i].
std::string slurm_conf(const Cluster& cluster, const std::vector<SlurmHardware>& hardware);

/// Text as a YAML block, each line indented.
std::string indented(const std::string& text, size_t blanks);

}  // namespace trireme::cloud
