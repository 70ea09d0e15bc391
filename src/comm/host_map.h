#pragma once
// On which host each rank of a group is. Hosts are numbered in the order of their first ranks.

#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace trireme {

class HostMap {
 public:
  HostMap() = default;  ///< without ranks
  /// host_of: by rank, any numbers that distinguish hosts.
  explicit HostMap(std::span<const int> host_of);
  /// All ranks on one host.
  static HostMap one_host(int ranks);
  /// Collective over `world`. `host`: the group of this host's ranks.
  static HostMap gather(Communicator& world, Communicator& host);

  int ranks() const { return static_cast<int>(host_of_.size()); }
  int hosts() const { return static_cast<int>(ranks_on_.size()); }
  int host_of(int rank) const { return host_of_[static_cast<size_t>(rank)]; }
  /// The ranks of a host, ascending.
  const std::vector<int>& ranks_on(int host) const { return ranks_on_[static_cast<size_t>(host)]; }
  int local_size(int rank) const { return static_cast<int>(ranks_on(host_of(rank)).size()); }
  int local_rank(int rank) const;  ///< among the ranks of its host
  /// Ranks on each host; 0 if hosts have different numbers of ranks.
  int ranks_per_host() const;
  /// The map of a group of the first `ranks` ranks, or of the given ranks in this order.
  HostMap first(int ranks) const;
  HostMap of(std::span<const int> ranks) const;

 private:
  std::vector<int> host_of_;
  std::vector<std::vector<int>> ranks_on_;
};

}  // namespace trireme
