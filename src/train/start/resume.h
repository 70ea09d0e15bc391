#pragma once
// Resuming a run: which checkpoint, whether this start asks for the same training, and what changes with its options.

#include <optional>
#include <string>
#include <vector>

#include "comm/scalars.h"
#include "optim/schedule.h"
#include "train/plan.h"

namespace trireme {

/// Collective. Throws CommonError.
ResumePlace find_resume(const LoadedConfig& loaded, Scalars& scalars);

/// The configuration with which the checkpoint was written.
Config resumed_config(const CheckpointFolder& folder);

/// Throws Error::config if a plan resumes a checkpoint in order to train, but not the same parameters. model_option:
/// takes the checkpoint's weights for a new run.
void check_same_trained(const RunPlan& plan, const char* model_option);

/// Compares a plan with the checkpoint that it resumes: model, tokenizer, batch, data, seed, trained parameters.
/// Throws Error::config with a table of the differences and the flag that allows each; allowed differences give
/// warnings.
void check_resume(const RunPlan& plan);

/// A sentence for each option that changes results and differs, with its origin. Options that a resume compares and may
/// refuse (model, data, batch, adapters, the loss of pairs, seed) are left to that.
std::vector<std::string> changed_options(const LoadedConfig& now, const Config& then);

/// A sentence if the learning rate of step `step` (counted from 0) and of those after it is decided by another decay:
/// a longer run.steps makes a rate that has fallen rise again.
std::optional<std::string> changed_decay(const Config& now, const Config& then, int64_t step);

/// Warns of both if the plan resumes a snapshot of this program in order to train.
void warn_of_changes(const RunPlan& plan);

}  // namespace trireme
