#pragma once
// What changes in a run when it is resumed with other options than its snapshot was written with.

#include <optional>
#include <string>
#include <vector>

#include "optim/schedule.h"
#include "train/plan.h"

namespace trireme {

/// A sentence for each option that changes results and differs, with its origin. Options that a resume compares and may
/// refuse (model, data, batch, adapters, the loss of pairs, seed) are left to that.
std::vector<std::string> changed_options(const LoadedConfig& now, const Config& then);

/// A sentence if the learning rate of step `step` (counted from 0) and of those after it is decided by another decay:
/// a longer run.steps makes a rate that has fallen rise again.
std::optional<std::string> changed_decay(const Config& now, const Config& then, int64_t step);

/// Warns of both if the plan resumes a snapshot of this program in order to train.
void warn_of_changes(const RunPlan& plan);

}  // namespace trireme
