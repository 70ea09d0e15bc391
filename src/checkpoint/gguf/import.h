#pragma once
// A GGUF file as a model to start from: its metadata becomes what a Hugging Face folder has in config.json,
// tokenizer.json and the files beside it, and its tensors are read by the family's names and layouts.

#include <string>

#include "checkpoint/gguf/reader.h"
#include "checkpoint/huggingface/huggingface.h"

namespace trireme {

struct GgufModel {
  Spec spec;
  std::string tokenizer_json;  ///< empty: the file has no tokenizer
  std::string generation;      ///< as read_generation_files()
};

/// Throws Error::io, Error::data for what is malformed or not supported, naming the key or the tensor.
GgufModel read_gguf_model(const std::string& path);

/// Fills the weights, decoded to f32. `spec` is the file's; it may have a smaller context, other dropouts and rows.
/// Throws Error::data as import_tensors().
void load_gguf(const std::string& path, const Spec& spec, const ParameterTable& table, TrainingState& state);

/// The tokenizer of the file as tokenizer.json; empty: it has none. Throws Error::data.
std::string gguf_tokenizer(const GgufHeader& header);
/// As read_generation_files(): what begins and ends a text, chat templates.
std::string gguf_generation(const GgufHeader& header, std::string_view model_type);

}  // namespace trireme
