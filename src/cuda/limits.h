#pragma once
#include <cstddef>

namespace trireme {

/// Throws Error::usage when more than `most` parts are summed by one launch.
void require_parts(size_t parts, size_t most);

/// Which GPU, of those that CUDA shows to it, the rank takes that is the local_rank-th of its host: of several each
/// rank takes its own; one is the rank's own, because a launcher that gives each rank a GPU hides the others. Throws
/// Error::usage if there are too few.
int gpu_of_rank(int local_rank, int visible);

}  // namespace trireme
