#pragma once

namespace trireme {

/// Which GPU, of those that CUDA shows to it, the rank takes that is the local_rank-th of its host: of several each
/// rank takes its own; one is the rank's own, because a launcher that gives each rank a GPU hides the others. Throws
/// Error::usage if there are too few.
int gpu_of_rank(int local_rank, int visible);

}  // namespace trireme
