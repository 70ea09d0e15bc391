#pragma once
// The machine as a run sees it: threads, memory, GEMM rate.

#include <cstdint>

#include "ops/ops.h"

namespace trireme {

/// Bytes that this process may still take: the smaller of the host's available memory and the cgroup's limit, shared by
/// the ranks of the host.
uint64_t available_memory(int local_ranks);

/// Bytes of main memory that this process holds at the moment.
uint64_t resident_memory();

struct GemmRate {
  double best = 0;        ///< FLOP/s of the fastest call, for the time in which its threads had processors
  double processors = 1;  ///< share of the time of all calls in which they had them; below 1: others run there, too
};

/// FLOP/s of a large GEMM with these operators, threads and type: what the MFU column divides by unless log.peak-tflops
/// is set. At least 0.3 s and 8 calls. Other programs make a call longer, which is not its processors' speed: its
/// seconds are those of the wall or, where less, the processor time of its threads divided by their number.
GemmRate measure_gemm_rate(Ops& ops, int threads, DType dtype);

/// The share of a processor that each thread can have when the ranks of this host, `local_ranks` of `threads` threads,
/// compute at once: 1, or less where that is more threads than the job was given processors (or a quota of them).
double share_of_processors(int threads, int local_ranks);

}  // namespace trireme
