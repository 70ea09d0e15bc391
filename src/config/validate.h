#pragma once
// Checks between options, and the arithmetic of batches: everything that can be checked before files are opened and
// ranks connect.

#include <cstdint>

#include <set>
#include <vector>

#include "config/load.h"

namespace trireme {

/// Throws Error::config naming both options, where they were set, and values that would work.
void validate(const LoadedConfig& loaded);

struct BatchPlan {
  int64_t global = 0;        ///< sequences per optimizer step over all data ranks
  int64_t per_rank = 0;      ///< global / ranks
  int64_t micro = 0;         ///< sequences per micro-batch
  int64_t accumulation = 0;  ///< micro-batches per step and rank: per_rank / micro
};

/// `ranks`: data-parallel ranks. `started_global`: the global batch that a resumed run began with, 0 for a new run;
/// from then on it replaces batch.per-rank. Throws Error::config with the numbers and values that work.
BatchPlan plan_batch(const LoadedConfig& loaded, int ranks, int64_t started_global = 0);

/// The columns of log.columns; empty: those that fit. Throws Error::config.
std::vector<LogColumn> log_columns(const LoadedConfig& loaded);

/// The steps of checkpoint.also. Throws Error::config.
std::set<int64_t> extra_snapshots(const LoadedConfig& loaded);

}  // namespace trireme
