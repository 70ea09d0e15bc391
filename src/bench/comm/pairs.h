#pragma once
// Every host against every other: which host, in which direction, is slower than the rest.

#include <cstdint>
#include <string>
#include <vector>

#include "bench/comm/traffic.h"

namespace trireme::comm_bench {

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

}  // namespace trireme::comm_bench
