#pragma once
// A sum over data ranks as a list of exchanges, run stripe by stripe: one over all ranks or, if the reduction is
// hierarchical, one inside each host, one between the hosts and one back inside. Pure arithmetic.
//
// A hierarchical reduction needs the same number of data ranks on each host; the i-th ranks of all hosts form a group.
// Inside a host the i-th rank sums what the i-th rank of any host owns: f32 in rank order, not rounded. The groups
// between hosts round each host's sum once to the wire type, add in f32 in the order of hosts and round the sum. Owners
// are the same ranks as without hosts. Each host sends one array of contributions and one of sums to the others,
// whatever the number of its ranks.

#include <vector>

#include "comm/host_map.h"
#include "exchange/chunk_pipeline.h"
#include "optim/ownership.h"

namespace trireme {

/// Most bytes of a chunk. Between hosts a message must fit MPI's eager limit for TCP (64 KiB with its header): a larger
/// one first asks for permission, which waits behind all data queued on a slow link. 56 KiB moved 16 MiB of gradients
/// over 200 Mbit/s at 0.94 of plain two-way traffic, 1 MiB at 0.76. Inside a host 128 to 512 KiB take the same time: a
/// core's cache holds what is summed.
constexpr size_t kNetworkChunkBytes = 56 << 10, kHostChunkBytes = 256 << 10;

/// Who has the sums at the end: each element's owner; one rank per host (the owner's peer in its group between hosts);
/// or all ranks.
enum class SumsAt : uint8_t { owners, owners_of_hosts, everyone };

struct ReductionPlan {
  DType wire = DType::bf16;  ///< between hosts; also inside a host unless hierarchical
  SumsAt sums = SumsAt::everyone;
  bool one_host = false;   ///< all ranks are on this host
  size_t chunk_bytes = 0;  ///< most bytes of a chunk unless hierarchical
  HostMap hosts{};         ///< of the data ranks: hierarchical; empty: all ranks at once
};

/// One exchange.
struct ReductionStage {
  std::vector<int> group;                ///< data ranks whose order is that of the sum, this one among them
  std::vector<std::vector<int>> owners;  ///< k-th turn of a stripe: member i has the pieces of data rank owners[k][i]
  ChunkPipeline::Route route;
  size_t chunk_bytes = 0;

  /// A stripe's turns, without empty ones.
  std::vector<Stripe> turns(const Stripe& stripe) const;
};

/// The exchanges of a data rank among `ranks`, in order. Hosts must have the same number of ranks.
std::vector<ReductionStage> reduction_stages(const ReductionPlan& plan, int ranks, int rank);

/// Splits all data ranks' elements between the ranks of one host: its rank i gets what the i-th ranks of all hosts own.
Ownership ownership_in_hosts(const Ownership& ownership, const HostMap& hosts);

}  // namespace trireme
