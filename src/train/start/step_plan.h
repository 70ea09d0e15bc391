#pragma once
// At the end of a run: the time of its steps beside the plan of src/plan.

#include "ops/ops.h"
#include "train/run.h"

namespace trireme {

/// Collective. Logs compare_with_plan() for the run's steps after measuring the copy rate of all ranks at once. Logs
/// nothing after fewer than 10 steps or 2 seconds, which say little about the speed. Where the batches of a run differ
/// in size, plan and measurement are of the mean of the last 101 steps.
void log_step_plan(const Run& run, const RankContext& rank, Scalars& scalars, Ops& ops);

}  // namespace trireme
