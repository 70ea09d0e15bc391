#pragma once
// The keys of dialect gpt-neox, and those that only some values of are taken.

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "config/dialect.h"

namespace trireme {

std::span<const DialectKey> gpt_neox_keys();

/// A key of which other values than these would change numbers or outputs and have no counterpart.
struct GptNeoxLimit {
  const char* key;
  const char* values;  ///< those that are taken, with '|' between them
  const char* reason;  ///< why the others are not, and what to do
};
std::span<const GptNeoxLimit> gpt_neox_limits();

/// The keys that say what a checkpoint of NeoX holds: the model, the batch, the schedule and the seed.
std::span<const char* const> gpt_neox_saved_keys();

/// What other programs call these keys.
std::span<const Synonym> gpt_neox_synonyms();

/// A key of DeepSpeed's configuration; all others are NeoX's own.
bool is_deepspeed_key(std::string_view key);

/// Names what stands in deepspeed_extra_args as in a ds_config.json; its gradient_clipping keeps its name, for of the
/// two it is the one that reaches DeepSpeed. Throws Error::config.
void take_out_extra_args(std::vector<Setting>& settings);

/// A key's list as JSON, its numbers as PyYAML reads them; nothing, with an objection, when that is not a list of what
/// is_item wants.
std::optional<Json> neox_list(const DialectView& view, const char* key, const char* expected,
                              bool (*is_item)(const Json& item));

/// Datasets, the tokenizer, and the folders that a run is kept in and resumed from.
void translate_neox_data(const DialectView& view, Translation& out);

}  // namespace trireme
