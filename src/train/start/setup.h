#pragma once
// What is decided before anything is allocated: the model, the data, the batch, where the run resumes. Every rank
// decides the same from the same files; rank 0's view of the run folder decides.

#include <memory>
#include <optional>

#include "checkpoint/model_folder.h"
#include "comm/rank_context.h"
#include "comm/scalars.h"
#include "config/load.h"
#include "config/validate.h"
#include "data/sample_source.h"
#include "train/plan.h"
#include "train/step_batches.h"

namespace trireme {

struct Setup : RunPlan {
  BatchShape batch;
  std::optional<ModelFolder> init;  ///< weights of a new run; empty: from scratch
  std::unique_ptr<FileSource> train, validation, test;
  bool of_conversations = false;  ///< the data are conversations, whose ids depend on the options of the group chat
};

/// Throws Error::config if the options contradict each other; otherwise logs the notes of the configuration.
void check_options(const LoadedConfig& loaded);

/// The first part of open_setup() for a run that begins as a model: checkpoint or model.init, spec, tokenizer,
/// generation settings. Throws as open_setup().
void open_start_model(Setup& setup, const ResumePlace& resume);
/// Resolves batch.global and batch.sequence of setup.loaded, too. Throws Error::config.
BatchShape resolve_batch(Setup& setup, int rank);

/// Fills in what follows from setup.loaded and setup.mesh, except the memory. Not collective. Throws Error::config,
/// Error::data, Error::io with the numbers and the fix.
void open_setup(Setup& setup, const ResumePlace& resume, const PlannedRank& rank);

/// The first values of a new run's adapters: random ones beside the magnitudes of the base model's rows, or
/// lora.adapter's. Throws as PeftAdapter and load_model().
void fill_adapters(const Setup& setup, const ParameterTable& table, TrainingState& state);

/// Logs if the padding token, whose row of the embedding transformers does not train, also ends texts.
void note_frozen_row(const Setup& setup);

/// Collective. Throws CommonError (mismatch) if ranks read different data.
void prove_setup(const Setup& setup, Scalars& scalars);

}  // namespace trireme
