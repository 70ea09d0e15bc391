#pragma once
// What the options can say and this build cannot train.

#include "config/load.h"

namespace trireme {

/// Throws Error::config with every one of: a mesh that splits the model, sharded state, fp16; each with what to set.
void require_runnable(const LoadedConfig& loaded);

}  // namespace trireme
