#pragma once
// Where this build lies. Only paths.cc is compiled with absolute paths, so that the compiler's cache serves other
// checkouts the rest.

#include <string>

namespace trireme {

/// Root of the source tree.
std::string source_dir();
/// The program that the tests of whole runs start.
std::string trireme_path();
/// The mpirun of this build's MPI library; empty where the build has none.
std::string mpirun_path();

}  // namespace trireme
