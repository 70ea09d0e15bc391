#pragma once
// What llama.cpp calls a family: its name there, the keys of its metadata, the names and layouts of its tensors, and
// what it does not compute.

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/gguf/file.h"
#include "checkpoint/huggingface/family.h"

namespace trireme {

struct GgufArchitecture {
  const char* model_type;  ///< of the Hugging Face family
  const char* name;
  Activation activation;
  bool interleaved = false;  ///< rows of queries and keys: values that turn together are neighbours
  bool own_head = false;     ///< has a matrix of the head, also where it is tied
  bool divisors = false;     ///< reads rope_freqs.weight
  bool biases = false;       ///< reads those of attention and MLP, where they exist
};

/// Throws Error::config for a family or a model that llama.cpp does not compute, with the reason.
const GgufArchitecture& gguf_architecture(const Family& family, const Spec& spec);

/// Every one that is known.
std::vector<const GgufArchitecture*> gguf_architectures();

/// Names and layouts there, "{}" as in the family's.
std::vector<NameRule> gguf_names(const Family& family);

/// A tensor that is made of the spec, not of weights.
using GgufExtra = std::pair<std::string, std::vector<float>>;

/// Keys below "ARCHITECTURE.". Logs what llama.cpp leaves out of the computation: windows, if a text is long enough.
void add_architecture(const GgufArchitecture& architecture, const Spec& spec, GgufMetadata& metadata);
std::vector<GgufExtra> extra_tensors(const GgufArchitecture& architecture, const Spec& spec);

/// The values of a tensor as llama.cpp has them, from those of the layout: rows of heads interleaved, gains complete,
/// queries with the scale of scores that the file cannot name.
void to_gguf_values(const GgufArchitecture& architecture, const Spec& spec, std::string_view name, int64_t row_length,
                    std::vector<float>& values);
/// The inverse, but for the scale of scores, which is part of the queries then.
void from_gguf_values(const GgufArchitecture& architecture, const Spec& spec, std::string_view name, int64_t row_length,
                      std::vector<float>& values);

}  // namespace trireme
