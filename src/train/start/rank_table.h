#pragma once
// Who holds what in a mesh, for `config show`: nothing is allocated, and the ranks need not exist.

#include <string>

#include "config/load.h"

namespace trireme {

/// Throws Error::config for a mesh that the model cannot have, whatever its vocabulary, with the sizes that it can.
/// Nothing is checked where the model is that of a folder which is not here.
void require_mesh(const LoadedConfig& loaded);

/// Comment lines of YAML: each rank's place, its part of the model and the memory that is planned for it, with one
/// thread and, where hosts is 0, one host per rank, else as many ranks on each; of more than 64 ranks a line for those
/// that differ in nothing but data and tensor rank. One line that says what is missing where the model is not known
/// yet. loaded: as resolve_for_ranks() left it. Throws Error::config for a mesh that the model cannot have, with the
/// sizes that it can, and for hosts that do not fit.
std::string rank_table(const LoadedConfig& loaded, int ranks, int hosts = 0);

}  // namespace trireme
