#pragma once
// A complete measurement: proof, head, table, footer. Collective.

#include <functional>
#include <string>
#include <vector>

#include "bench/comm/gradient.h"
#include "bench/comm/hardware.h"
#include "comm/process.h"
#include "ops/backend.h"

namespace trireme::comm_bench {

struct RunRequest {
  std::vector<Subject> subjects;
  Options options;
  GradientOptions gradient;
  double least_bandwidth = 0;  ///< of the average bus bandwidth, GB/s; 0: not checked
  std::string binary;          ///< commit and build, for the head
  Backend* gpus = nullptr;     ///< of this rank, connected with the others'; nullptr: messages of MPI between hosts
};

struct RunResult {
  std::vector<Table> tables;  ///< one per subject
  std::vector<GradientComparison> comparisons;
  Link link;
  double average_bus_bandwidth = 0;
  int64_t wrong = 0;
  bool fast_enough = true;
  std::string json;  ///< all of it, as nccl-tests' -J has it and more
  bool good() const { return wrong == 0 && fast_enough; }
};

/// Prints through `print` on rank 0, as it measures; nothing before the ranks have proved that they are connected.
/// Throws as prove_connected() and the collectives.
RunResult run(Process& process, const RunRequest& request, const std::function<void(const std::string&)>& print);

/// Every host against every other; prints the table and the slow pairs, and returns those. Collective. Throws as
/// prove_connected() and measure_pairs().
std::vector<std::string> run_pairs(Process& process, int64_t bytes, int repeats,
                                   const std::function<void(const std::string&)>& print);

/// The largest buffer that fits: half of the host's free memory, divided by its ranks, in two buffers. Pure.
int64_t fitting_bytes(int64_t wanted, int64_t free_bytes, int ranks_of_host);

}  // namespace trireme::comm_bench
