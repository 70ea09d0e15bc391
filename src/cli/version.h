#pragma once
#include <string>

namespace trireme {

/// Commit, compiler, backends, MPI, oneDNN version and CPU features, one per line.
std::string version_text();
/// "trireme 0.1.0 (commit 0123456789ab)".
std::string program_text();
/// The commit that this program was built from, followed by "-dirty" if files had changed.
std::string commit_text();
/// Identifies a build of the program: it must be the same on all ranks of a job.
std::string build_text();

}  // namespace trireme
