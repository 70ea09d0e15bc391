#pragma once
// Writes a model as GGUF files, for llama.cpp, ollama and what reads their files.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/gguf/blocks.h"
#include "model/parameter_table.h"
#include "optim/training_state.h"

namespace trireme {

// What users ask for, "q4_k_m", and the type of each tensor that llama.cpp's quantizer chooses for it without an
// importance matrix.

/// The numbers are those of the key general.file_type.
enum class GgufFileType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q8_0 = 7,
  q4_k_m = 15,
  q5_k_m = 17,
  q6_k = 18,
  bf16 = 32
};
template <>
struct Names<GgufFileType> {
  static constexpr Named<GgufFileType> kAll[] = {{"f32", GgufFileType::f32},       {"f16", GgufFileType::f16},
                                                 {"bf16", GgufFileType::bf16},     {"q8_0", GgufFileType::q8_0},
                                                 {"q6_k", GgufFileType::q6_k},     {"q5_k_m", GgufFileType::q5_k_m},
                                                 {"q4_k_m", GgufFileType::q4_k_m}, {"q4_0", GgufFileType::q4_0}};
};

/// Where a tensor is in the model.
struct TensorPlace {
  std::string_view name;  ///< "blk.3.attn_v.weight"
  int64_t layer = 0, layers = 0;
  bool is_head = false;  ///< the matrix that makes the logits, a tied embedding too
};

/// dims and row length as in GgufTensor::shape. A row that is not a multiple of the type's block gets another one:
/// q5_0, q5_1 and q8_0 instead of q4_k, q5_k and q6_k, f16 where 32 does not divide it either.
BlockType tensor_type(GgufFileType type, const TensorPlace& place, size_t dims, int64_t row_length);
/// The type before rows are looked at.
BlockType wanted_type(GgufFileType type, const TensorPlace& place, size_t dims, int64_t row_length);

struct GgufExport {
  std::string name;                 ///< of the model, "my-model"
  std::vector<GgufFileType> types;  ///< a file of each
  std::string tokenizer_json;       ///< may be empty: the files have no tokenizer then
  std::string generation;           ///< read_generation_files() of the folder that the model began as; may be empty
  std::string pre_tokenizer;        ///< llama.cpp's name; empty: by the tokenizer's steps
};

/// Writes NAME-TYPE.gguf of each type, and a Modelfile for the first, into an existing folder, tensor by tensor: memory
/// for one of them. The table is of the whole model. `stop` is asked between tensors: true ends the export with
/// Error::stopped. Throws Error::config for what llama.cpp does not compute, Error::io; where the disk is too small for
/// all files, before anything is written.
void export_gguf(const std::string& folder, const GgufExport& options, const Spec& spec, const ParameterTable& table,
                 const TrainingState& state, const std::function<bool()>& stop = {});

/// "my-model-Q4_K_M.gguf".
std::string gguf_file_name(const std::string& model, GgufFileType type);

}  // namespace trireme
