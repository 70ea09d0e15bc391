#pragma once
// Resuming a run: which checkpoint, and whether this start asks for the same training.

#include <string>

#include "train/start/setup.h"

namespace trireme {

/// Collective. Throws CommonError.
ResumePlace find_resume(const LoadedConfig& loaded, Scalars& scalars);

/// The configuration with which the checkpoint was written.
Config resumed_config(const CheckpointFolder& folder);

/// Throws Error::config if a plan resumes a checkpoint in order to train, but not the same parameters. model_option:
/// takes the checkpoint's weights for a new run.
void check_same_trained(const RunPlan& plan, const char* model_option);

/// Compares a setup with the checkpoint that it resumes: model, tokenizer, batch, data, seed, trained parameters.
/// Throws Error::config with a table of the differences and the flag that allows each; allowed differences give
/// warnings.
void check_resume(const Setup& setup);

}  // namespace trireme
