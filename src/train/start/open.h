#pragma once
// What is decided before anything is allocated: the model, the batch, where the run resumes. Every rank decides the
// same from the same files; rank 0's view of the run folder decides.

#include <optional>
#include <string>

#include "checkpoint/model_folder.h"
#include "config/load.h"
#include "train/plan.h"
#include "train/run.h"

namespace trireme {

/// The model of a run, opened.
struct Opened {
  LoadedConfig loaded;
  PlannedModel model;
  std::optional<CheckpointFolder> resume;  ///< the run resumes from here
  Config resumed;                          ///< the configuration with which `resume` was written
  std::optional<ModelFolder> init;         ///< weights of a new run; empty: from scratch
  std::string tokenizer_json;              ///< empty: unknown
  std::string generation;                  ///< generation settings of the model's first folder; empty: none

  const Config& config() const { return loaded.config; }
  /// The checkpoint or the folder of the model.
  const std::string& path() const { return resume ? resume->path : init->path; }
};

/// The checkpoint of the place, if it names one, without a model. Throws Error::config, Error::data, Error::io with the
/// numbers and the fix, as the following.
Opened open_start(LoadedConfig loaded, const MeshShape& mesh, const ResumePlace& place);
/// The same with the checkpoint's model, or that of model.init or of the options. data_vocabulary: of the data; 0:
/// unknown.
Opened with_model(Opened opened, int64_t data_vocabulary);
/// Resolves batch.global of the options, too.
BatchShape resolve_batch(Opened& opened, int rank);

/// What this rank holds of an opened run, except the memory.
RunPlan plan_run(Opened opened, const BatchShape& batch, const StepSize& step, const PlannedRank& rank);

/// The first weights of a run of the plan: those of the model that it begins as, or random ones, and those of its
/// adapters: random ones beside the magnitudes of the base model's rows, or lora.adapter's. model_option: names another
/// model. Throws as PeftAdapter and load_model().
void make_first_weights(Run& run, const char* model_option);

}  // namespace trireme
