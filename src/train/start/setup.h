#pragma once
// What is decided before anything is allocated: the model, the data, the batch, where the run goes on. Every rank
// decides alike from the same files; rank 0's view of the run folder is the one that counts.

#include <memory>
#include <optional>

#include "checkpoint/model_folder.h"
#include "comm/rank_context.h"
#include "comm/scalars.h"
#include "config/load.h"
#include "config/validate.h"
#include "data/sample_source.h"
#include "train/start/run_plan.h"
#include "train/step_batches.h"

namespace trireme {

struct Setup : RunPlan {
  BatchShape batch;
  std::optional<ModelFolder> init;  ///< weights of a new run; empty: from scratch
  std::unique_ptr<FileSource> train, validation, test;
};

/// Throws Error::config where the options do not fit together, else tells the notes of the configuration.
void check_options(const LoadedConfig& loaded);

/// Fills in what follows from setup.loaded and setup.mesh, all but the memory. Not collective. Throws Error::config,
/// Error::data, Error::io with the numbers and the fix.
void open_setup(Setup& setup, const ResumePlace& resume, const PlannedRank& rank);

/// Collective. Throws CommonError (mismatch) where ranks read other data.
void prove_setup(const Setup& setup, Scalars& scalars);

}  // namespace trireme
