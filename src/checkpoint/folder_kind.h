#pragma once
// Folders that are almost those of a model: what lies there, and what to do with it.

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

/// The folder, or of one that transformers' Trainer wrote and that has no weights itself the newest checkpoint-N, which
/// a line says. Throws as refuse_other_folder().
std::string plain_model_folder(const std::string& folder);

/// Throws Error::data saying what the folder is where it is known and cannot be a model: an adapter (LoRA), BERT's
/// bert_config.json, weights of TensorFlow, Flax, ONNX, GGUF and others.
void refuse_other_folder(const std::string& folder);

/// config.json, with the model_type that its architectures or its fields alone can mean where it has none. Throws
/// Error::data where they mean none or several.
Json read_model_config(const std::string& folder);

}  // namespace trireme
