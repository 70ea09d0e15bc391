#pragma once
// Rejects options that are valid but cannot be trained.

#include <cstdint>
#include <string>

#include "config/load.h"

namespace trireme {

/// Throws Error::config with every pair of options that exclude each other, and what to set.
void require_layout(const LoadedConfig& loaded);
/// The same for ranks of which each has a GPU and `data` share gradients.
void require_layout_on_gpus(const LoadedConfig& loaded, int64_t data);
/// Why GPUs cannot train so; empty: they can. data: ranks that share gradients.
std::string reason_against_gpus(const Config& config, int64_t data);
/// The same, and options that cannot be trained for other reasons, such as fp16.
void require_runnable(const LoadedConfig& loaded);

}  // namespace trireme
