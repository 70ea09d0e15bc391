#pragma once
// Turns reachable machines into a cluster: names, shared folder, keys, Trireme, node checks, Slurm, and a final test.

#include <string>

#include "cloud/layout.h"
#include "cloud/node_files.h"
#include "cloud/remote.h"

namespace trireme::cloud {

/// Sets up the nodes in `cluster`, regardless of earlier setups. A node that fails is removed from the cluster and
/// named in the result; a failure of the head throws Error::io. Logs each stage.
Failures set_up(Cluster& cluster, const Remote& remote, const SharedFolder& shared, const End& end);

/// Runs hosts, health and bench comm over all nodes from the head and prints their output. Returns whether all
/// succeeded.
bool prove(const Cluster& cluster, const Remote& remote);

/// The nodes' names, one per line: the hostfile in the shared folder.
std::string hostfile(const Cluster& cluster);
std::string hostfile_path(const Cluster& cluster);

}  // namespace trireme::cloud
