#pragma once
#include <string>

namespace trireme {

/// Commit, compiler, backends, MPI, oneDNN version and CPU features, one per line.
std::string version_text();

}  // namespace trireme
