#pragma once
// Steps of a job's ranks in turn: of the first 1, 2, 4, ... ranks, to see how the speed grows with their number, or of
// all ranks in different layouts.

#include <functional>
#include <string_view>
#include <vector>

#include "comm/cpu_account.h"
#include "comm/rank_context.h"
#include "comm/scalars.h"
#include "ops/backend.h"

namespace trireme {

/// One step of a rank.
struct StepTime {
  double seconds = 0;
  double waiting = 0;  ///< of it, for other ranks
  double loss = 0;
};
using MeasuredStep = std::function<StepTime()>;

/// Steps of this number of ranks.
struct RanksTime {
  int ranks = 1;
  double seconds = 0;   ///< of a step, median, of the slowest rank
  double speed_up = 1;  ///< work per second over the first group's, both by `seconds`: the ratio of their rates
  double waiting = 0;   ///< share of the step in which rank 0 waited for other ranks
  double loss = 0;      ///< of the last step
  CpuTimes cpu;         ///< of all ranks, over the timed steps
};

/// The first ranks of a job.
struct RankGroup {
  int ranks = 1;
  double work = 1;  ///< of its step, in any unit
};
/// 1, 2, 4, ... and all ranks, with the same work for each rank.
std::vector<RankGroup> growing_groups(int ranks);

/// Collective over `job`. One step of each group in turn, `rounds` times after one to warm up. `make` makes,
/// collectively over the ranks it is given, the step of group i; it borrows them. Rank 0's result is the one to show.
std::vector<RanksTime> measure_in_turn(const RankContext& job, const std::vector<RankGroup>& groups, int64_t rounds,
                                       const std::function<MeasuredStep(size_t i, const RankContext&)>& make);

// What each rank of a measurement computes with: its own GPU, or the CPU.

/// Collective. The GPU of each rank, connected with the others', if a GPU is chosen or, with automatic, every rank has
/// one; else the CPU. Throws Error::usage on all ranks, naming `option`, if GPUs were asked for and a rank has none of
/// its own.
/// cudnn: attention by cuDNN, which needs a GPU: else Error::usage.
Backend backend_of_ranks(DeviceChoice choice, std::string_view option, const RankContext& rank, Scalars& scalars,
                         bool cudnn = false);

}  // namespace trireme
