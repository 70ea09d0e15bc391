#include "cuda/limits.h"

#include "base/error.h"

namespace trireme {

void require_parts(size_t parts, size_t most) {
  require(parts <= most, ErrorKind::usage,
          "sum_contributions: {} ranks share a gradient, but GPUs support at most {}; use fewer data ranks", parts,
          most);
}

int gpu_of_rank(int local_rank, int visible) {
  if (visible <= 1) return 0;
  require(local_rank < visible, ErrorKind::usage,
          "this host has more ranks than GPUs: CUDA shows {}; start one rank per GPU (CUDA_VISIBLE_DEVICES may hide "
          "some)",
          visible);
  return local_rank;
}

}  // namespace trireme
