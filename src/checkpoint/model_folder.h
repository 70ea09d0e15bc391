#pragma once
// A model to start from or to sample: a Hugging Face folder, a run folder, one step's folder, a checkpoint of GPT-NeoX
// or nanoGPT, or a GGUF file, distinguished by their files.

#include <functional>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_folder.h"

namespace trireme {

struct ModelFolder {
  std::string path;  ///< the folder that holds the weights; nanoGPT's and GGUF: the file
  Spec spec;
  std::string tokenizer_json;                  ///< converted from older files if only those exist; empty: missing
  std::optional<CheckpointFolder> checkpoint;  ///< empty: a Hugging Face folder or a file
  bool nanogpt = false, gguf = false;
  std::string generation = {};  ///< read_generation_files(), of the model that a run began as, too
};

/// Opens without loading weights: a path, or a name of the Hugging Face hub (hub/place.h; `alive` is called while that
/// is asked). Throws Error::io, Error::data naming the files that a model folder needs.
ModelFolder open_model(
    const std::string& given, const std::function<void()>& alive = [] {});

/// Throws Error::data naming the format, or Error::io, where the path is a file and a folder is needed.
void require_no_file(const std::string& path);

/// Throws Error::config unless `spec` is the folder's model; it may have a smaller context, other dropouts and rows,
/// and adapters that the folder's lacks.
void require_same_model(const ModelFolder& folder, const Spec& spec);

/// Fills the weights of `state`. `spec` may have a smaller context than the folder's (position rows are cropped) and
/// other dropouts and rows, and adapters that the folder's lacks, which remain as they are; every other difference is
/// an Error::config.
void load_model(const ModelFolder& folder, const Spec& spec, const ParameterTable& table, TrainingState& state);

}  // namespace trireme
