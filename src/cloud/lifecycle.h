#pragma once
// create, status, add, remove and delete: each records the request first, then carries it out; each may be interrupted
// and repeated.

#include <functional>
#include <string>
#include <vector>

#include "cloud/layout.h"
#include "cloud/remote.h"

namespace trireme::cloud {

/// Asked before any change; false: change nothing.
using Confirm = std::function<bool(const std::string& question)>;

/// Each returns the exit code: 0, or 1 where nodes are missing or the look at the end found something. Throw Error.
int create(const std::string& file, const Confirm& confirm, bool take_over);
int status(const std::string& file);
int add_nodes(const std::string& file, int count, const Confirm& confirm);
int remove_nodes(const std::string& file, const std::vector<std::string>& names, const Confirm& confirm);
int destroy(const std::string& file, const Confirm& confirm);

/// ssh and its options to a node of the cluster ("": the head), to be run in place of this program.
std::vector<std::string> ssh_to(const std::string& file, const std::string& node);
/// The nodes: a hostfile for commands on the head, or a part of ~/.ssh/config for this machine.
std::string nodes_as_hostfile(const std::string& file);
std::string nodes_as_ssh_config(const std::string& file);

}  // namespace trireme::cloud
