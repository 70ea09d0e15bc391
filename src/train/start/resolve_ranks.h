#pragma once
// Options that follow from the number of ranks; `config show` prints them, too.

#include "comm/mesh.h"
#include "config/load.h"

namespace trireme {

/// The mesh of the options on `ranks` ranks. Throws Error::config if the mesh does not fit this number, or mesh.stages
/// is not a list of numbers.
MeshShape mesh_of(const MeshOptions& options, int ranks, const std::string& source);

/// Sets mesh.data, batch.global, batch.micro and batch.accumulation to their values on `ranks` ranks. Throws
/// Error::config if mesh or batch does not fit this number. source: where the number comes from, a flag or a variable.
void resolve_for_ranks(LoadedConfig& loaded, int ranks, const std::string& source = "--ranks");

}  // namespace trireme
