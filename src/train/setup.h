#pragma once
// What is decided before anything is allocated: the model, the data, the batch, where the run goes on. Every rank
// decides alike from the same files; rank 0's view of the run folder is the one that counts.

#include <functional>
#include <memory>
#include <optional>

#include "checkpoint/model_folder.h"
#include "comm/rank_context.h"
#include "comm/scalars.h"
#include "config/load.h"
#include "config/validate.h"
#include "data/sample_source.h"
#include "train/run_plan.h"
#include "train/step_batches.h"

namespace trireme {

struct Setup : RunPlan {
  BatchShape batch;
  std::optional<ModelFolder> init;  ///< weights of a new run; empty: from scratch
  std::unique_ptr<FileSource> train, validation, test;
};

/// Collective. fetch: called where the run is new, before what the configuration names is opened: a run that is resumed
/// needs its own folder alone. Throws CommonError (config, data, io) with the numbers and the fix.
Setup make_setup(
    LoadedConfig loaded, const MeshShape& mesh, const PlannedRank& rank, Scalars& scalars,
    const std::function<void()>& fetch = [] {});

}  // namespace trireme
