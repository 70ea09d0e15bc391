#pragma once
// Folders that look like a model but cannot be loaded: what they contain and what the user can do.

#include <string>
#include <vector>

#include "base/json.h"

namespace trireme {

/// Files of weights that have no index and not the plain name: shards (model-00001-of-00003.safetensors), or one
/// variant (model.fp16.safetensors); of safetensors before pytorch_model's. Empty: not found. Throws Error::io
/// naming the shards that are missing, Error::data for several variants.
std::vector<std::string> find_unnamed_weights(const std::string& folder);

/// Does the folder hold weights of a Hugging Face model, by any of their names?
bool holds_huggingface_weights(const std::string& folder);

/// The folder, or, if it was written by transformers' Trainer and has no weights itself, its newest checkpoint-N, with
/// a log line. Throws as refuse_other_folder().
std::string plain_model_folder(const std::string& folder);

/// Throws Error::data naming the folder's format if it is known but cannot be loaded as a model: an adapter (LoRA),
/// BERT's bert_config.json, weights of TensorFlow, Flax, ONNX, GGUF and others, weights under other names,
/// models in folders below.
void refuse_other_folder(const std::string& folder);

/// config.json, with model_type derived from its architectures or fields if missing. Throws Error::data if they match
/// no type or several.
Json read_model_config(const std::string& folder);

}  // namespace trireme
