#pragma once
#include <span>
#include <string>

namespace trireme {

/// A library of NVIDIA's that is found at run time.
struct LibraryName {
  const char* name;                    ///< "cuBLASLt"
  std::span<const char* const> files;  ///< in the order of preference
  const char* package;                 ///< of PyPI
};

/// Opens the first that is there of each file's places: where the loader looks, $CUDA_HOME/lib64,
/// /usr/local/cuda/lib64. All of its symbols are resolved. Throws Error::usage with the places and the command that
/// gets the library.
void* open_library(const LibraryName& library);

}  // namespace trireme
