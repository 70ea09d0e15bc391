#pragma once
// A kind of node from what `trireme bench node -J` and `trireme bench comm -J` measured on the machines themselves.

#include <string>
#include <vector>

#include "plan/node_type.h"

namespace trireme {

struct MeasuredMachine {
  NodeType node;         ///< rates as measured: every share is 1
  std::string host;      ///< where the node was measured
  bool network = false;  ///< a file of several hosts gave the network's rate
  double taken = 0;      ///< largest share of a node's processors that other programs had while it was measured
  std::string busy;      ///< the file that says so
};

/// At least one file of `bench node`; of several, the slowest rate of each kind counts. Throws Error::io, Error::data
/// for a file that neither command wrote, and Error::mismatch with the numbers for files of machines that differ.
MeasuredMachine read_measured_machine(const std::vector<std::string>& files);

/// Throws Error::mismatch with the numbers if cores, instruction set or memory (by more than 15 %) are not the type's.
void require_same_machine(const MeasuredMachine& measured, const NodeType& type);

}  // namespace trireme
