#pragma once
// The keys of dialect gpt-neox, and the keys of which only some values are supported.

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "config/dialect.h"

namespace trireme {

std::span<const DialectKey> gpt_neox_keys();

/// A key of which all other values would change numbers or outputs and are not supported.
struct GptNeoxLimit {
  const char* key;
  const char* values;  ///< the supported values, with '|' between them
  const char* reason;  ///< why the others are not supported, and what to do
};
std::span<const GptNeoxLimit> gpt_neox_limits();

/// The keys that say what a checkpoint of NeoX holds: the model, the batch, the schedule and the seed.
std::span<const char* const> gpt_neox_saved_keys();

/// Names of these keys in other programs.
std::span<const Synonym> gpt_neox_synonyms();

/// A key of DeepSpeed's configuration; all others are NeoX's own.
bool is_deepspeed_key(std::string_view key);

/// Renames the keys in deepspeed_extra_args to those of a ds_config.json, except gradient_clipping: of the two keys of
/// that name, only this one reaches DeepSpeed. Throws Error::config.
void take_out_extra_args(std::vector<Setting>& settings);

/// A key's list as JSON, its numbers as PyYAML reads them; nothing, with an objection, if it is not a list or is_item()
/// rejects an item.
std::optional<Json> neox_list(const DialectView& view, const char* key, const char* expected,
                              bool (*is_item)(const Json& item));

/// The model: its form, its sizes and its first weights.
void translate_neox_model(const DialectView& view, Translation& out);

/// Datasets, the tokenizer, and the folders in which a run is kept and from which it is resumed.
void translate_neox_data(const DialectView& view, Translation& out);

}  // namespace trireme
