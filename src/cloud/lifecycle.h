#pragma once
// create, status, add, remove and delete: each records the request first, then executes it; each may be interrupted and
// repeated.

#include <functional>
#include <string>
#include <vector>

#include "cloud/layout.h"
#include "cloud/remote.h"

namespace trireme::cloud {

/// Asked before any change; false: change nothing.
using Confirm = std::function<bool(const std::string& question)>;

/// Each returns the exit code: 0, or 1 if nodes are missing or the final check found a problem. Throw Error.
int create(const std::string& file, const Confirm& confirm, bool take_over);
int status(const std::string& file);
int add_nodes(const std::string& file, int count, const Confirm& confirm);
int remove_nodes(const std::string& file, const std::vector<std::string>& names, const Confirm& confirm);
int destroy(const std::string& file, const Confirm& confirm);

/// The ssh command for a node of the cluster ("": the head), to be executed instead of this program.
std::vector<std::string> ssh_to(const std::string& file, const std::string& node);
/// Runs a shell command on all nodes at once and prints its folded output. Returns 0, or 1 if it failed on a node or a
/// node could not be reached.
int run_on_all(const std::string& file, const std::string& command);
/// The nodes as a hostfile for commands on the head, or as a part of ~/.ssh/config for this machine.
std::string nodes_as_hostfile(const std::string& file);
std::string nodes_as_ssh_config(const std::string& file);

}  // namespace trireme::cloud
