#pragma once
// What follows from the number of ranks, for `config show`.

#include "config/load.h"

namespace trireme {

/// Sets mesh.data, batch.global, batch.micro and batch.accumulation to what they come to on so many ranks. Throws
/// Error::config when these cannot share the mesh or the batch.
void resolve_for_ranks(LoadedConfig& loaded, int ranks);

}  // namespace trireme
