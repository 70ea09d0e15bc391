#pragma once
// How much disk space a run needs, known before any rank has started.

#include <cstdint>

#include "config/load.h"

namespace trireme {

/// Bytes of one snapshot in the run folder; 0: unknown (a model that must be fetched first, data without a known
/// vocabulary) or no snapshot is written.
int64_t snapshot_file_bytes(const LoadedConfig& loaded);

}  // namespace trireme
