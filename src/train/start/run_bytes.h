#pragma once
// How much room a run needs, told before any rank has started.

#include <cstdint>

#include "config/load.h"

namespace trireme {

/// Bytes of one snapshot in the run folder; 0: not known (a model that must be fetched first, data that tell no
/// vocabulary) or none is written.
int64_t snapshot_file_bytes(const LoadedConfig& loaded);

}  // namespace trireme
