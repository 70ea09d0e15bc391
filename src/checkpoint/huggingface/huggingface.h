#pragma once
// Exchange with Hugging Face folders: config.json <-> Spec, tensor names and transforms <-> the parameter table. A
// family is a name map and the fields of its config.json (checkpoint/huggingface/family.h); no code elsewhere knows it.

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/huggingface/family.h"
#include "checkpoint/huggingface/tensor_source.h"
#include "model/parameter_table.h"
#include "optim/training_state.h"

namespace trireme {

/// The action if the files lack the head's parameters.
enum class MissingHead : uint8_t {
  refuse,
  keep,   ///< they remain unchanged in the state: a new head on a pretrained model
  renew,  ///< so, too, where the files have them for another number of classes
};

/// Loads what the table holds of the tensors of `source`, by the family's names and layouts. Missing, unexpected and
/// mis-shaped ones: one Error::data listing all, which begins with `where`. If the spec has a smaller context than the
/// files, position rows are cropped; a larger one is an error. Tensors of a head that the model does not have are left
/// out, and a line says so. tied: a matrix, or a bias, that has a name in the embedding and one in the head may be
/// there under either alone. Returns the files' names of the head's tensors that were kept.
std::vector<std::string> import_tensors(const Family& family, const TensorSource& source, const std::string& where,
                                        const Spec& spec, const ParameterTable& table, MissingHead missing_head,
                                        TrainingState& state, bool tied);

/// Reads config.json of a folder; vocabulary_rows is the vocabulary (pad it to taste). Throws Error::data for a
/// model_type or activation_function that is not known, listing those that are, and for settings that would change the
/// numbers.
Spec read_huggingface_spec(const std::string& folder);

/// The same model with another head, replacing the folder's own (a classifier's classes: from num_labels or id2label,
/// else 2). Throws Error::data where the family has no such head, naming those that have.
Spec read_huggingface_spec(const std::string& folder, HeadKind head);

/// Loads the folder's weights (TensorSource::of_folder) into the state by its family's names and layouts; faults as in
/// import_tensors(), and the same result. Which biases exist is the spec's word, never the file's.
std::vector<std::string> load_huggingface(const std::string& folder, const Spec& spec, const ParameterTable& table,
                                          TrainingState& state, MissingHead missing_head = MissingHead::refuse);

/// Writes into an existing folder what a model reads and writes texts with: tokenizer.json, if given, with
/// tokenizer_config.json and the other files beside it, and generation_config.json. generation: as below. Returns the
/// fields of config.json that belong to them. Throws Error::io, Error::data.
Json export_text_files(const std::string& folder, const Spec& spec, const std::string& tokenizer_json,
                       const std::string& generation);

/// Writes config.json, model.safetensors (f32, or bf16 with `dtype`), generation_config.json and, if given,
/// tokenizer.json with tokenizer_config.json. generation: read_generation_files() of the folder that the model began
/// as, written back unchanged, a chat template too; empty: the end of a text is the tokenizer's. Of a folder with other
/// parts than text (kept_wrapper()) all other tensors and files are carried through, and config.json is that folder's.
/// The table is of the whole model. Biases that the spec lacks and the family always has are written as zeros. The
/// folder is created; it must not hold a model. `stop` is asked between tensors: true ends the export with
/// Error::stopped, the folder then holds part of a model. Throws Error::io, Error::config.
void export_huggingface(const std::string& folder, const Spec& spec, const ParameterTable& table,
                        const TrainingState& state, const std::string& tokenizer_json, DType dtype,
                        const std::function<bool()>& stop = {}, const std::string& generation = {});

}  // namespace trireme
