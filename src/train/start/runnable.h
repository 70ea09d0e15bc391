#pragma once
// Rejects options that are valid but cannot be trained.

#include "config/load.h"

namespace trireme {

/// Throws Error::config with every pair of options that exclude each other, and what to set.
void require_layout(const LoadedConfig& loaded);
/// The same, and options that cannot be trained for other reasons, such as fp16.
void require_runnable(const LoadedConfig& loaded);

}  // namespace trireme
