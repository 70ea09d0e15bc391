#include "optim/reduction_plan.h"

#include <algorithm>
#include <numeric>

namespace trireme {
std::vector<Stripe> ReductionStage::turns(const Stripe& stripe) const {
  std::vector<Stripe> turns;
  for (const std::vector<int>& pieces_of : owners) {
    Stripe turn{.pieces = {}, .ready_end = stripe.ready_end};
    for (const int rank : pieces_of) turn.pieces.push_back(stripe.pieces[static_cast<size_t>(rank)]);
    if (turn.longest() > 0) turns.push_back(std::move(turn));
  }
  return turns;
}

std::vector<ReductionStage> reduction_stages(const ReductionPlan& plan, int ranks, int rank) {
  const bool everyone = plan.sums == SumsAt::everyone;
  if (plan.hosts.ranks_per_host() <= 1) {  // a host's sum is its rank's contribution
    std::vector<int> all(static_cast<size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    const Exchange exchange = plan.sums == SumsAt::owners ? Exchange::reduce : Exchange::reduce_and_share;
    return {{all, {all}, {ranks, plan.wire, exchange, plan.one_host}, plan.chunk_bytes}};
  }
  const HostMap& hosts = plan.hosts;
  const int per_host = hosts.ranks_per_host();
  std::vector<std::vector<int>> of_hosts;
  std::vector<int> across;
  for (int host = 0; host < hosts.hosts(); ++host) {
    of_hosts.push_back(hosts.ranks_on(host));
    across.push_back(of_hosts.back()[static_cast<size_t>(hosts.local_rank(rank))]);
  }
  const std::vector<int>& inside = hosts.ranks_on(hosts.host_of(rank));
  std::vector<ReductionStage> stages{
      {inside, of_hosts, {per_host, DType::f32, Exchange::reduce, true}, kHostChunkBytes},
      {across,
       {across},
       {hosts.hosts(), plan.wire, plan.sums == SumsAt::owners ? Exchange::reduce : Exchange::reduce_and_share, false},
       kNetworkChunkBytes}};
  if (everyone) stages.push_back({inside, of_hosts, {per_host, plan.wire, Exchange::share, true}, kHostChunkBytes});
  return stages;
}

Ownership ownership_in_hosts(const Ownership& ownership, const HostMap& hosts) {
  const ReductionStage inside = reduction_stages({.sums = SumsAt::owners, .hosts = hosts}, hosts.ranks(), 0).front();
  std::vector<Stripe> stripes;
  for (const Stripe& stripe : ownership.stripes()) {
    for (Stripe& turn : inside.turns(stripe)) stripes.push_back(std::move(turn));
  }
  return {inside.route.ranks, std::move(stripes)};
}

}  // namespace trireme
