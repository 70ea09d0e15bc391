#pragma once
// Going on with a run: from which checkpoint, and whether this start asks for the same training.

#include <string>

#include "train/start/setup.h"

namespace trireme {

/// Collective. Throws CommonError.
ResumePlace find_resume(const LoadedConfig& loaded, Scalars& scalars);

/// The configuration that the checkpoint was written under.
Config resumed_config(const CheckpointFolder& folder);

/// Compares a set-up with the checkpoint that it resumes: model, tokenizer, batch, data, seed. Throws Error::config
/// with a table of what differs and the flag that allows it; what is allowed is told in warnings.
void check_resume(const Setup& setup);

}  // namespace trireme
