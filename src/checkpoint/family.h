#pragma once
// A model family of Hugging Face: which of their tensors is which of ours, how the values are laid out there, and the
// fields of its config.json. Values only; huggingface.cc works on any family.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/spec.h"

namespace trireme {

/// How a tensor lies in their file. All are invertible. C: width, ours of a linear: [out, in].
enum class Layout : uint8_t {
  same,                   ///< as ours
  transposed,             ///< [in, out]
  qkv_blocks,             ///< bias [3C]: all q, all k, all v; ours: q, k, v of head 0, of head 1, ...
  qkv_blocks_transposed,  ///< weight [C, 3C]: the same order along the columns; ours: [3C, C]
};

/// "{}" stands for the number of the block in both names.
struct NameRule {
  const char* theirs;
  const char* ours;
  Layout layout = Layout::same;
};

struct Family {
  const char* model_type;                ///< of config.json
  const char* architecture;              ///< of config.json, as exported
  const char* prefix;                    ///< that their names may have
  std::span<const NameRule> names;       ///< base model
  NameRule head;                         ///< without prefix; absent or equal to the embedding when tied
  std::span<const char* const> ignored;  ///< buffers, without prefix; "{}" as above
  Spec (*read_config)(const Json& config, std::string_view where);
  /// Adds the family's fields. Throws Error::config when the family cannot express the Spec.
  void (*write_config)(const Spec& spec, Json& config);
  /// Spec of the files that are exported: parameters that ours lacks and the family always has are written as zeros.
  Spec (*exported)(const Spec& spec);
};

const Family& gpt2_family();

/// Every family that is known.
std::span<const Family* const> families();
/// Throws Error::data listing the known ones.
const Family& find_family(const std::string& model_type, std::string_view where);

/// Text of a rule's name with the number of a block.
std::string numbered(std::string_view pattern, int64_t block);
/// Does the name fit the pattern for some block number?
bool fits(std::string_view pattern, std::string_view name);

/// Shape in their file of a parameter that is `ours` here.
std::vector<int64_t> their_shape(Layout layout, std::span<const int64_t> ours);
/// ours = theirs, reordered; `ours` has the given shape [rows, columns] (a bias: [rows, 1]).
void import_values(Layout layout, int64_t heads, int64_t rows, int64_t columns, std::span<const float> theirs,
                   std::span<float> ours);
/// The inverse of import_values.
void export_values(Layout layout, int64_t heads, int64_t rows, int64_t columns, std::span<const float> ours,
                   std::span<float> theirs);

}  // namespace trireme
