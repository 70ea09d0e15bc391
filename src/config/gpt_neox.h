#pragma once
// The keys of dialect gpt-neox, and the translators of its parts.

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "config/dialect.h"

namespace trireme {

std::span<const DialectKey> gpt_neox_keys();

/// The keys and groups that say what a checkpoint of NeoX holds, with blanks between: the model, the batch, the
/// schedule and the seed.
std::string_view gpt_neox_saved_keys();

/// Names of these keys in other programs.
std::span<const Synonym> gpt_neox_synonyms();

/// A key of DeepSpeed's configuration; all others are NeoX's own.
bool is_deepspeed_key(std::string_view key);

/// Renames the keys in deepspeed_extra_args to those of a ds_config.json, except gradient_clipping: of the two keys of
/// that name, only this one reaches DeepSpeed.
void take_out_extra_args(std::vector<Setting>& settings, std::vector<std::string>& objections);

/// A key's list as JSON, its numbers as PyYAML reads them; nothing, with an objection, if it is not a list or is_item()
/// rejects an item.
std::optional<Json> neox_list(const DialectView& view, const char* key, const char* expected,
                              bool (*is_item)(const Json& item));

/// The model: its form, its sizes and its first weights.
void translate_neox_model(const DialectView& view, Translation& out);

/// Datasets, the tokenizer, and the folders in which a run is kept and from which it is resumed.
void translate_neox_data(const DialectView& view, Translation& out);

}  // namespace trireme
