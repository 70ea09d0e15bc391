#pragma once
// What the options can say and this build cannot train.

#include "config/load.h"

namespace trireme {

/// Throws Error::config with every pair of options that no layout can have, and what to set.
void require_layout(const LoadedConfig& loaded);
/// The same, and what cannot be trained for other reasons, such as fp16.
void require_runnable(const LoadedConfig& loaded);

}  // namespace trireme
