#pragma once
#include <string>
#include <vector>

#include "cluster/health/machine.h"

namespace trireme::health {

struct GeneratedLine {
  std::string section, check;
  bool operator==(const GeneratedLine&) const = default;
};

/// Checks that this node passes now: its mounts, space, processors, memory, swap, interfaces, InfiniBand ports and
/// GPUs.
std::vector<GeneratedLine> describe_node(const Machine& machine);

struct GeneratedNode {
  std::string host;
  std::vector<GeneratedLine> lines;
};

/// A configuration file that all these nodes pass: common lines have the target "*", the others name their nodes.
std::string generate_config(const std::vector<GeneratedNode>& nodes);

}  // namespace trireme::health
