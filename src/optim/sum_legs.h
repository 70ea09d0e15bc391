#pragma once
// The way of a sum over data ranks as exchanges that follow each other, stripe by stripe: one over all ranks, or, hosts
// first, one inside each host, one across the hosts and one back inside. Pure arithmetic.
//
// Hosts first, every host has as many data ranks, and the i-th ones of all hosts make a group. Inside a host the i-th
// rank adds up what belongs to the i-th rank of any host: f32 in rank order, not rounded. The groups across round each
// host's sum once to the wire type, add in f32 in the order of hosts and round the sum. So owners are the same ranks as
// without hosts, and of each host only 1 / ranks of a host leaves it twice, whatever the number of its ranks.

#include <vector>

#include "comm/host_map.h"
#include "optim/chunk_pipeline.h"
#include "optim/ownership.h"

namespace trireme {

/// Most bytes of a chunk. Between hosts a message must fit MPI's eager limit for TCP (64 KiB with its header): a larger
/// one first asks for leave, behind all data that is queued on a slow link. 56 KiB moved 16 MiB of gradients over 200
/// Mbit/s at 0.94 of plain two-way traffic, 1 MiB at 0.76. Inside a host 128 to 512 KiB take the same time: a core's
/// cache holds what is summed.
constexpr size_t kNetworkChunkBytes = 56 << 10, kHostChunkBytes = 256 << 10;

/// Who has the sums in the end: each element's owner, on every host one rank (the owner's peer in its group across
/// hosts), or all ranks.
enum class SumsAt : uint8_t { owners, owners_of_hosts, everyone };

struct SumWay {
  DType wire = DType::bf16;  ///< between hosts, and inside one where nothing is done hosts first
  SumsAt sums = SumsAt::everyone;
  bool one_host = false;   ///< all ranks are on this host
  size_t chunk_bytes = 0;  ///< most of a chunk where hosts are not told apart
  HostMap hosts{};         ///< of the data ranks: hosts first; none: all ranks at once
};

/// One exchange.
struct SumLeg {
  std::vector<int> group;                ///< data ranks whose order is that of the sum, this one among them
  std::vector<std::vector<int>> owners;  ///< k-th turn of a stripe: member i has the pieces of data rank owners[k][i]
  ChunkPipeline::Route route;
  size_t chunk_bytes = 0;

  /// A stripe's turns, without those in which nothing travels.
  std::vector<Stripe> turns(const Stripe& stripe) const;
};

/// Of a data rank among `ranks`, in order. Hosts must have the same number of ranks.
std::vector<SumLeg> sum_legs(const SumWay& way, int ranks, int rank);

/// What the ranks of each host own together of all data ranks' elements: rank i of a host what the i-th ranks of all
/// hosts own.
Ownership ownership_in_hosts(const Ownership& ownership, const HostMap& hosts);

}  // namespace trireme
