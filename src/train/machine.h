#pragma once
// The machine as a run sees it: threads, memory, GEMM rate.

#include <cstdint>

#include "ops/ops.h"

namespace trireme {

/// Bytes that this process may still allocate: the smaller of the host's available memory and the cgroup's limit,
/// divided by the ranks of the host.
uint64_t available_memory(int local_ranks);

/// Resident memory of this process in bytes.
uint64_t resident_memory();

struct GemmRate {
  double best = 0;  ///< FLOP/s of the fastest call, for the time in which its threads had processors
  double processors =
      1;  ///< share of all calls' time in which its threads had processors; below 1: other programs run there, too
};

/// FLOP/s of a large GEMM with these operators, threads and type: the MFU column divides by it unless log.peak-tflops
/// is set. At least 0.3 s and 8 calls. So that other programs do not lower the rate, the seconds of a call are the
/// smaller of wall-clock time and processor time per thread.
GemmRate measure_gemm_rate(Ops& ops, int threads, DType dtype);

/// The share of a processor that each thread gets when the `local_ranks` ranks of this host compute at once with
/// `threads` threads each: 1, or less if there are more threads than the job's processors (or its CPU quota).
double share_of_processors(int threads, int local_ranks);

}  // namespace trireme
