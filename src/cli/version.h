#pragma once
#include <string>

namespace trireme {

/// Commit, compiler, backends, MPI, oneDNN version and CPU features, one per line.
std::string version_text();
/// "trireme 0.1.0 (commit 0123456789ab)".
std::string program_text();
/// The commit that this program was built from, "-dirty" behind it if files had changed.
std::string commit_text();
/// What tells two builds of the program apart: ranks of one job must agree on it.
std::string build_text();

}  // namespace trireme
