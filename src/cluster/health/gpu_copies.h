#pragma once
// How fast this node's GPUs copy from and to pinned memory of the host, measured through the GPU library
// (ops/gpu_library.h).

#include <string>
#include <vector>

namespace trireme::health {

struct CopySpeed {
  int gpu = 0;                     ///< its index
  double to_gpu = 0, to_host = 0;  ///< GB/s (1e9 bytes), by the GPU's clock; 0: not measured
};

struct MeasuredCopies {
  std::vector<CopySpeed> gpus = {};
  std::string why_not = {};  ///< this build cannot measure, or failed to
};

/// Of the first `gpus` GPUs, one after the other, each from memory of its own NUMA node. Never throws.
MeasuredCopies measure_copies(int gpus);

}  // namespace trireme::health
