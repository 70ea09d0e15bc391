#pragma once
// Writes a model as GGUF files, for llama.cpp, ollama and what reads their files.

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/gguf/file_type.h"
#include "model/parameter_table.h"
#include "optim/training_state.h"

namespace trireme {

struct GgufExport {
  std::string name;                 ///< of the model, "my-model"
  std::vector<GgufFileType> types;  ///< a file of each
  std::string tokenizer_json;       ///< may be empty: the files have no tokenizer then
  std::string generation;           ///< read_generation_files() of the folder that the model began as; may be empty
  std::string pre_tokenizer;        ///< llama.cpp's name; empty: by the tokenizer's steps
};

/// Writes NAME-TYPE.gguf into an existing folder, tensor by tensor: memory for one of them. The table is of the whole
/// model. `stop` is asked between tensors: true ends the export with Error::stopped. Throws Error::config for what
/// llama.cpp does not compute, Error::io; where the disk is too small for all files, before anything is written.
void export_gguf(const std::string& folder, const GgufExport& options, const Spec& spec, const ParameterTable& table,
                 const TrainingState& state, const std::function<bool()>& stop = {});

/// "my-model-Q4_K_M.gguf".
std::string gguf_file_name(const std::string& model, GgufFileType type);

}  // namespace trireme
