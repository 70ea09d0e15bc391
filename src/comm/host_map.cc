#include "comm/host_map.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>

namespace trireme {

HostMap::HostMap(std::span<const int> host_of) {
  std::map<int, int> numbers;
  for (const int host : host_of) {
    const auto [number, is_new] = numbers.try_emplace(host, hosts());
    if (is_new) ranks_on_.emplace_back();
    ranks_on_[static_cast<size_t>(number->second)].push_back(ranks());
    host_of_.push_back(number->second);
  }
}

HostMap HostMap::one_host(int ranks) { return HostMap(std::vector<int>(static_cast<size_t>(ranks), 0)); }

HostMap HostMap::gather(Communicator& world, Communicator& host) {
  int32_t first = world.rank();
  host.broadcast(View(&first, DType::i32, {1}), 0).wait("the ranks of this host");
  std::vector<int32_t> firsts(static_cast<size_t>(world.size()));
  world.all_gather(View(&first, DType::i32, {1}), View(firsts.data(), DType::i32, {world.size()}))
      .wait("the ranks of all hosts");
  return HostMap(firsts);
}

int HostMap::local_rank(int rank) const {
  const std::vector<int>& peers = ranks_on(host_of(rank));
  return static_cast<int>(std::ranges::lower_bound(peers, rank) - peers.begin());
}

int HostMap::ranks_per_host() const {
  const auto size = [&](const std::vector<int>& ranks) { return ranks.size() == ranks_on_[0].size(); };
  return ranks_on_.empty() || !std::ranges::all_of(ranks_on_, size) ? 0 : static_cast<int>(ranks_on_[0].size());
}

HostMap HostMap::first(int ranks) const { return HostMap(std::span(host_of_).first(static_cast<size_t>(ranks))); }

HostMap HostMap::of(std::span<const int> ranks) const {
  std::vector<int> hosts;
  for (const int rank : ranks) hosts.push_back(host_of(rank));
  return HostMap(hosts);
}

}  // namespace trireme
