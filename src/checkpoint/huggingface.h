#pragma once
// Exchange with Hugging Face folders: config.json <-> Spec, tensor names and transforms <-> the parameter table. A
// family is a name map and the fields of its config.json; no code elsewhere knows it.

#include <string>

#include "model/parameter_table.h"
#include "optim/training_state.h"

namespace trireme {

/// Reads config.json of a folder. Throws Error::data for a model_type or activation_function that is not known, listing
/// those that are.
Spec read_huggingface_spec(const std::string& folder);

/// Loads model.safetensors into the state (Conv1D weights transposed, q|k|v blocks regrouped per head, optional
/// "transformer." prefix, buffers ignored, tied head). Missing, unexpected and mis-shaped tensors: one Error::data
/// listing all. If the state's spec has a smaller context than the file, position rows are cropped; a larger one is an
/// error.
void load_huggingface(const std::string& folder, const Spec& spec, const ParameterTable& table, TrainingState& state);

/// Writes config.json, model.safetensors (f32, or bf16 with `dtype`), tokenizer.json if given, generation_config.json.
void export_huggingface(const std::string& folder, const Spec& spec, const ParameterTable& table,
                        const TrainingState& state, const std::string& tokenizer_json, DType dtype);

}  // namespace trireme
