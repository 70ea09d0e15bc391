#pragma once
// libtrireme_cuda.so (src/cuda), which is opened when a GPU is asked for, so that the program itself needs no library
// of CUDA.

#include <string>

#include "ops/backend.h"

namespace trireme {

/// Where the library is: beside the program, in the build, or in ../lib/trireme of a package. Empty: in neither.
std::string gpu_library_path();

/// The library's function kMakeGpuBackend: the first GPU and its operators. Throws Error::usage if no GPU can be used.
using MakeGpuBackend = void(Backend&, const GpuOptions&);
inline constexpr const char* kMakeGpuBackend = "trireme_make_gpu_backend";
/// The library's text kGpuInterface: a hash of the headers that it shares with the program.
inline constexpr const char* kGpuInterface = "trireme_gpu_interface";

/// The library's function kDescribeGpuNetwork: what would connect the GPUs of several ranks: "NCCL 2.28.9". Throws
/// Error::usage with what to do if nothing can.
using DescribeGpuNetwork = void(std::string&);
inline constexpr const char* kDescribeGpuNetwork = "trireme_describe_gpu_network";

/// Throws Error::usage, naming the library, if it cannot be opened, is of another build or finds no GPU.
Backend open_gpu_backend(const std::string& library, const GpuOptions& options = {});

/// What a run with run.device auto finds here.
struct UsableGpu {
  std::string hardware;  ///< as Backend::hardware; empty: none
  std::string why_none;
  std::string network = {};  ///< of a usable one: what kDescribeGpuNetwork says; empty: nothing connects several
  std::string why_no_network = {};
};
UsableGpu usable_gpu();

}  // namespace trireme
