#pragma once
// The nodes that a run can be planned for: a table with sources, and own types in a YAML file.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/step_time.h"
#include "tensor/dtype.h"

namespace trireme {

/// A kind of node, from data sheets. With GPUs, tflops, memory and bandwidth are those of one GPU; else of all cores.
struct NodeType {
  std::string name, processor, instruction_set;
  int64_t cores = 0, gpus = 0;
  double tflops = 0;      ///< peak of matrix products: 16-bit on GPUs and with AVX512-BF16, else f32
  double f32_tflops = 0;  ///< the same in f32; 0: as tflops
  double memory_gb = 0, memory_gb_per_s = 0;
  double link_gb_per_s = 0;       ///< from one GPU to the others of its node; 0 without GPUs
  double network_gbit_per_s = 0;  ///< of the node
  int64_t units = 0;              ///< multiprocessors of a GPU
  double product_share = 0.7, link_share = 0.8, network_share = 0.8;  ///< of these rates that a run reaches
  /// Measured: seconds of computing that a rank loses per byte of gradients that it sends inside a node, to others.
  double link_work = 0, network_work = 0;
  std::vector<MeasuredProduct> products{};  ///< measured: used instead of tflops x product_share
  double memory_share = 0;                  ///< of memory_gb_per_s that a pass reaches; 0: docs/planner.md's table
  double price_per_hour = 0;                ///< USD; 0: unknown
  std::string price_date{};                 ///< when this was the list price
  std::string source{};                     ///< of the rates
  // What `trireme cluster` knows of the size.
  std::string size{};      ///< the provider's name: "Standard_D32_v5", "c6i.16xlarge"; empty: no such size
  int64_t threads = 0;     ///< hardware threads of the node
  int64_t memory_gib = 0;  ///< of the node
  bool fast = false;       ///< InfiniBand or Elastic Fabric Adapter
};

std::span<const NodeType> node_types();
/// The table of docs/planner.md.
std::string node_types_markdown();
/// By name; nullptr: not in the table.
const NodeType* known_node_type(std::string_view name);
/// By name. Throws Error::config naming the nearest one.
const NodeType& node_type(const std::string& name);
/// A type from a YAML file of the keys that docs/planner.md lists. Throws Error::config naming file, line and key.
NodeType read_node_type(const std::string& path);
/// node_type(), or read_node_type() where `name` ends in .yaml or .yml.
NodeType find_node_type(const std::string& name);

/// Rates of one of `ranks` ranks of such a node, in 16 bits. GPUs: as Megatron-LM uses them. Cores: as Trireme does;
/// the ranks share cores, memory and network evenly. Throws Error::config unless there is a rank, and for more ranks
/// than GPUs.
MachineRates rates_of(const NodeType& node, int64_t ranks);

/// Numbers of a run that rates depend on.
struct RunFormats {
  DType dtype = DType::bf16, wire = DType::bf16;
  bool host_sums = false;          ///< gradients are summed inside each node before they leave it (comm.reduce hosts)
  bool host_sums_if_even = false;  ///< but not where nodes have different numbers of data ranks (auto on GPUs)
};
/// The same as Trireme computes with these numbers. Throws Error::config as rates_of().
MachineRates trireme_rates(const NodeType& node, int64_t ranks, const RunFormats& formats);

/// A kind of node from what `trireme bench node -J` and `trireme bench comm -J` measured on the machines themselves.
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
