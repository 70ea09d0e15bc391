#pragma once
// Paths of this build. Only paths.cc is compiled with absolute paths, so that the compiler cache serves other
// checkouts.

#include <string>

namespace trireme {

/// Root of the source tree.
std::string source_dir();
/// The program that tests of complete runs start.
std::string trireme_path();
/// The mpirun of this build's MPI library; empty without MPI.
std::string mpirun_path();

}  // namespace trireme
