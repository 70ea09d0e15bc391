#pragma once
// A complete measurement: proof, head, table, footer. Collective.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/comm/gradient.h"
#include "bench/comm/hardware.h"
#include "bench/comm/traffic.h"
#include "comm/process.h"
#include "ops/backend.h"

namespace trireme::comm_bench {

// Every host against every other: which host, in which direction, is slower than the rest.

struct PairRates {
  std::vector<std::string> hosts;
  /// [from * hosts.size() + to], bytes per second of plain messages one way; 0 from a host to itself.
  std::vector<double> rates;
  double rate(size_t from, size_t to) const { return rates[from * hosts.size() + to]; }
};

/// Collective. One rank of each host sends `bytes` to one of another; pairs that have no host in common run at the same
/// time, in about one round per host, each one way and then the other. The median of `repeats`; the same on every rank.
/// Throws Error::mismatch on a single host.
PairRates measure_pairs(Job& job, const std::string& host, int64_t bytes, int repeats);

/// Partners of every round: [round][host] is the other host, or -1 for none. Every two hosts meet exactly once. Pure.
std::vector<std::vector<int>> rounds_of(int hosts);

/// A table: rows send, columns receive, GB/s.
std::string to_text(const PairRates& pairs);

/// Everything slower than half of the median pair: a host that sends slowly to all, one that receives slowly from all,
/// and single pairs beside those. Empty: the network is even. Pure.
std::vector<std::string> find_slow(const PairRates& pairs);

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
