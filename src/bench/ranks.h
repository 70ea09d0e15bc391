#pragma once
// Steps of a job's first ranks, in turn with those of other numbers of ranks: how the speed grows with their number.

#include <functional>
#include <vector>

#include "comm/cpu_account.h"
#include "comm/rank_context.h"

namespace trireme {

/// One step of a rank.
struct StepTime {
  double seconds = 0;
  double waiting = 0;  ///< of it, for the exchange of gradients
  double loss = 0;
};
using MeasuredStep = std::function<StepTime()>;

/// Steps of so many ranks, each with the same work.
struct RanksTime {
  int ranks = 1;
  double seconds = 0;   ///< of a step, median, of the slowest rank
  double speed_up = 1;  ///< median over the rounds of the work per second over one rank's of the same round
  double waiting = 0;   ///< share of the step in which rank 0 stood still for the exchange
  double loss = 0;      ///< of the last step
  CpuTimes cpu;         ///< of all ranks, over the timed steps
};

/// Collective over `job`. 1, 2, 4, ... and all ranks: one step of each in turn, `rounds` times after one to warm up.
/// `make` makes, collectively over the ranks it is given, their step; it borrows them. Rank 0's result is the one to
/// show.
std::vector<RanksTime> measure_ranks(const RankContext& job, int64_t rounds,
                                     const std::function<MeasuredStep(const RankContext&)>& make);

}  // namespace trireme
