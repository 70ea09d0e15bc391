#pragma once
// A model family of Hugging Face: which of their tensors is which of ours, how the values are laid out there, and the
// fields of its config.json. Values only; huggingface.cc works on any family.

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/spec.h"

namespace trireme {

/// How a tensor is stored in their file. All are invertible. C: width, ours of a linear: [out, in].
enum class FileLayout : uint8_t {
  same,                   ///< as ours
  transposed,             ///< [in, out]
  qkv_blocks,             ///< [3C, C] or [3C]: all q, all k, all v; ours: q, k, v of head 0, of head 1, ...
  qkv_blocks_transposed,  ///< weight [C, 3C]: the same order along the columns; ours: [3C, C]
  query,                  ///< [C, C] or [C]: the q of every head; three rules make one of ours
  key,
  value,
  gate,  ///< [I, C] or [I]: the gates of an MLP; two rules make one of ours, each gate's row before its up's
  up,
  gate_up_blocks,  ///< [2I, C]: all gates, then all ups
  // Of layers with a state: ours has of each key head its query, key and values, then gates, betas, decays
  // (DeltaShape).
  delta_mixed,  ///< rows of all queries, of all keys, of all values; four rules make one of ours
  delta_gates,
  delta_betas,
  delta_decays,
  delta_channels,  ///< all that ours has, in the order of delta_mixed
};

/// Heads of keys, and the heads of queries (with their gates) that share each; the same of layers with a state, whose
/// value heads share keys.
struct HeadGroups {
  int64_t kv_heads = 0, group = 1;
  int64_t delta_heads = 0, delta_group = 0, key_size = 0, value_size = 0;
  int64_t mixed() const { return 2 * key_size + delta_group * value_size; }
  int64_t delta_rows() const { return mixed() + delta_group * (value_size + 2); }  ///< of a key head
};
inline HeadGroups groups_of(const Spec& spec) {
  return {spec.kv_heads(),    spec.query_vectors(), spec.delta_key_heads,
          spec.delta_group(), spec.delta_key_size,  spec.delta_value_size};
}

/// "{}" is the block number in both names.
struct NameRule {
  const char* theirs;
  const char* ours;
  FileLayout layout = FileLayout::same;
  bool outside = false;  ///< of the base model: never written with the prefix
};

/// A Hugging Face class and the kind of its head.
struct Architecture {
  const char* name;
  HeadKind head;
};

/// The position of a token in a padded Hugging Face batch.
enum class PositionRule : uint8_t {
  columns,      ///< its column
  attended,     ///< how many tokens before it are attended to
  not_padding,  ///< how many tokens before it are not the padding token
};

struct Family {
  const char* model_type;                       ///< of config.json
  std::span<const Architecture> architectures;  ///< of config.json; the first of a kind is exported
  std::span<const char* const> prefixes;        ///< that their names may have; the first is exported
  std::span<const NameRule> names;              ///< of every head; the Spec determines which exist
  std::span<const NameRule> copies;             ///< tensors that hold one of ours again (tied); exported: untied_copy()
  std::span<const NameRule> synonyms = {};      ///< other names of theirs, without prefix, and the one that `names` has
  std::span<const char* const> ignored;         ///< buffers, without prefix; "{}" as above
  /// How names of tensors of other parts begin (vision, prediction of further tokens): they are not read here.
  std::span<const char* const> others = {};
  bool wrapper = false;  ///< config.json has the text model's in "text_config"
  PositionRule positions = PositionRule::columns;
  bool has_padding = true;  ///< the embedding gives the row of pad_token_id no gradient (torch's padding_idx)
  int64_t padding = -1;     ///< pad_token_id where config.json has none; -1: none
  bool gamma_beta = false;  ///< old files call a norm's weight gamma and its bias beta
  bool longrope = false;    ///< the family of models with these positions
  bool (*expresses)(const Spec& spec);  ///< can its config.json describe this?
  Spec (*read_config)(const Json& config, HeadKind head, std::string_view where);
  /// Adds the family's fields of a Spec that it expresses.
  void (*write_config)(const Spec& spec, Json& config);
  /// Spec of the files that are exported: parameters that ours lacks and the family always has are written as zeros.
  Spec (*exported)(const Spec& spec) = [](const Spec& spec) { return spec; };
};

/// Two lists of names as one, for families that share one of them.
template <size_t N, size_t M>
constexpr std::array<NameRule, N + M> joined(const std::array<NameRule, N>& a, const std::array<NameRule, M>& b) {
  std::array<NameRule, N + M> all{};
  std::ranges::copy(b, std::ranges::copy(a, all.begin()).out);
  return all;
}

const Family& gpt2_family();
const Family& opt_family();
const Family& gpt_neox_family();
const Family& bert_family();
const Family& distilbert_family();
const Family& roberta_family();
std::span<const Family> decoder_families();

/// Every family that is known.
std::span<const Family* const> families();
/// Throws Error::data listing the known ones, with the reason where the type, or the fields of its config.json, show
/// why it is not one.
const Family& find_family(std::string_view model_type, std::string_view where, const Json& config);
const Family& find_family(std::string_view model_type, std::string_view where);
/// Why models of another type cannot be trained here, "it is a mixture of experts": what its type, or a field of its
/// config.json (null: unknown), shows; empty: nothing.
std::string why_unsupported(std::string_view model_type, const Json& config);

/// The family whose config.json can describe this: the one of that model_type if it can, else the first. Throws
/// Error::config naming the supported ones.
const Family& family_for(const Spec& spec, std::string_view model_type = {});
/// The architecture of config.json, or the family's first if it names none. Throws Error::data listing the supported
/// ones.
const Architecture& find_architecture(const Family& family, const Json& config, std::string_view where);

/// The row of the embedding that gets no gradient in transformers, by pad_token_id in config.json (null: the file says
/// nothing) of a model with so many rows; -1: none. Throws Error::data.
int64_t frozen_row(const Family& family, const Json& config, int64_t rows, std::string_view where);

/// Text of a rule's name with the number of a block.
std::string numbered(std::string_view pattern, int64_t block);
/// Does the name fit the pattern for some block number?
bool fits(std::string_view pattern, std::string_view name);
/// Is the tensor of a part of the model that is not read here?
bool is_of_another_part(const Family& family, std::string_view name);
/// The name as the rules have it: without the prefixes of torch.compile() and DistributedDataParallel (_orig_mod.,
/// module., in any order) and then the family's, gamma and beta renamed.
std::string plain_name(const Family& family, std::string_view name);

/// The copy that an untied head computes with: there it is its own tensor, and the one of `names` is not used. Null for
/// parameters without such a copy.
const NameRule* untied_copy(const Family& family, const Spec& spec, std::string_view ours);

/// A rule for one of our parameters, with the block's number filled in.
struct NamedRule {
  std::string theirs, ours;
  FileLayout layout = FileLayout::same;
  bool outside = false;
};
std::vector<NamedRule> numbered_rules(std::span<const NameRule> rules, int64_t blocks);

/// Shape in their file of a parameter that is `ours` here.
std::vector<int64_t> their_shape(FileLayout layout, const HeadGroups& groups, std::span<const int64_t> ours);
/// ours = theirs, reordered; `ours` has the given shape [rows, columns] (a bias: [rows, 1]). query, key and value, gate
/// and up fill their part of the rows.
void import_values(FileLayout layout, const HeadGroups& groups, int64_t rows, int64_t columns,
                   std::span<const float> theirs, std::span<float> ours);
/// The inverse of import_values.
void export_values(FileLayout layout, const HeadGroups& groups, int64_t rows, int64_t columns,
                   std::span<const float> ours, std::span<float> theirs);

}  // namespace trireme
