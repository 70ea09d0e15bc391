#pragma once
// What follows from the number of ranks, beside what `config show` prints.

#include "comm/mesh.h"
#include "config/load.h"

namespace trireme {

/// The mesh that the options ask for on so many ranks. Throws Error::config when these cannot share it, or mesh.stages
/// is no list of numbers.
MeshShape mesh_of(const MeshOptions& options, int ranks, const std::string& source);

/// Sets mesh.data, batch.global, batch.micro and batch.accumulation to what they come to on so many ranks. Throws
/// Error::config when these cannot share the mesh or the batch.
void resolve_for_ranks(LoadedConfig& loaded, int ranks);

}  // namespace trireme
