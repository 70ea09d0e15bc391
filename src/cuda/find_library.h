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

/// For a runtime's version (CUDART_VERSION): the files of its own toolkit first, since a driver that is new enough for
/// it may be too old for libraries of a newer one.
LibraryName cublaslt_for(int runtime);
LibraryName cuda_runtime_for(int runtime);
LibraryName cudnn_for(int runtime);
LibraryName nccl_for(int runtime);

/// Opens the first that is there of each file's places: where the loader looks, $CUDA_HOME/lib64,
/// /usr/local/cuda/lib64. All of its symbols are resolved. Throws Error::usage with the places and the command that
/// gets the library.
void* open_library(const LibraryName& library);

}  // namespace trireme
