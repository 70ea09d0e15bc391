#pragma once
// What is decided before anything is allocated: the model, the data, the batch, where the run goes on. Every rank
// decides alike from the same files; rank 0's view of the run folder is the one that counts.

#include <memory>
#include <optional>

#include "checkpoint/model_folder.h"
#include "comm/scalars.h"
#include "config/load.h"
#include "config/validate.h"
#include "data/sample_source.h"
#include "train/step.h"

namespace trireme {

struct Setup {
  LoadedConfig loaded;  ///< with batch.global as it is in force
  Spec spec;
  InitScheme init_scheme = InitScheme::gpt2;  ///< of weights that start from scratch
  DType dtype = DType::f32;
  BatchShape batch;
  std::optional<CheckpointFolder> resume;  ///< the run goes on from here
  std::optional<ModelFolder> init;         ///< weights of a new run; empty: from scratch
  std::string tokenizer_json;              ///< empty: none known
  std::unique_ptr<FileSource> train, validation;
  std::vector<DataFileFact> data_files;

  const Config& config() const { return loaded.config; }
};

/// Collective. Throws CommonError (config, data, io) with the numbers and the fix.
Setup make_setup(LoadedConfig loaded, Scalars& scalars);

/// Lays the options that were given over a spec that comes from elsewhere (preset, folder, checkpoint).
Spec with_given_options(Spec spec, const LoadedConfig& loaded);

/// The model that the options describe; vocabulary 0 stands for `data_vocabulary`. Throws Error::config.
Spec spec_from_options(const LoadedConfig& loaded, int64_t data_vocabulary);

}  // namespace trireme
