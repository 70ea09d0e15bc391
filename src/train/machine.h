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

/// FLOP/s of a large GEMM with these operators, threads and type: what the MFU column divides by unless log.peak-tflops
/// is set. About 0.2 s.
double measure_gemm_rate(Ops& ops, int threads, DType dtype);

}  // namespace trireme
