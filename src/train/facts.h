#pragma once
// What a run says about itself at its start, and the memory it will take.

#include "comm/process.h"
#include "ops/backend.h"
#include "report/metrics.h"
#include "train/setup.h"

namespace trireme {

/// The memory shape of this run's model.
ModelShape model_shape(const Setup& setup);

/// Bytes that this rank will take: weights, gradients, moments, activations, scratch, the snapshot of a save and the
/// exchange's buffers.
struct MemoryPlan {
  size_t state = 0, activations = 0, scratch = 0, snapshot = 0, exchange = 0;
  size_t total() const { return state + activations + scratch + snapshot + exchange; }
};
MemoryPlan plan_memory(const Setup& setup, const ParameterTable& table, const Ops& ops, int ranks, int threads);

/// Throws Error::config with the numbers when the plans of this host's ranks do not fit in its memory.
void require_memory(const MemoryPlan& plan, const Setup& setup, const Process& process);

RunFacts run_facts(const Setup& setup, const ParameterTable& table, const MemoryPlan& plan, const Process& process,
                   const Backend& backend, int threads, double peak_flops);

}  // namespace trireme
