#pragma once
// Settings for text generation from a model's Hugging Face folder: generation_config.json, and the fields of
// config.json with the same meaning.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace trireme {

/// What an export of the model writes back, a JSON object {"model_type": of the folder, "dtype": of its weights by
/// config.json if it says so, "config": {...},
/// "generation_config": {...} or null, "tokenizer_files": {name: text} of tokenizer_config.json,
/// special_tokens_map.json and the chat templates (also those in additional_chat_templates/) if there are any beside
/// the tokenizer, "wrapper": of kept_wrapper()}; the fields of both files unchanged. It travels with the model. Throws
/// Error::data for a generation_config.json that is not an object, Error::io for a file above 16 MiB.
std::string read_generation_files(const std::string& folder, const Json& config);

/// The model_type of read_generation_files()'s text; empty: unknown, as in checkpoints of older versions.
std::string kept_model_type(const std::string& files);

/// The "config" of that text, the fields of config.json that it keeps; null: unknown.
Json kept_config(const std::string& files);

/// The type of the weights in the folder that the model began as, "bfloat16", by its config.json; empty: unknown.
std::string kept_dtype(const std::string& files);

/// The folder of a model with other parts than text, and its whole config.json as text ("wrapper" of the files).
struct Wrapper {
  std::string folder, config;
};
/// That of the folder that the model began as; nothing: it was a text model, or is unknown.
std::optional<Wrapper> kept_wrapper(const std::string& files);

/// The text without what belongs to the folder's tokenizer.
std::string without_tokens(const std::string& files);

/// The "tokenizer_files" of read_generation_files()'s text: texts by name. Throws Error::data, which begins with
/// `where`.
std::map<std::string, std::string> kept_tokenizer_files(const std::string& files, std::string_view where);

/// read_generation_files()'s text with this text as one of its "tokenizer_files".
std::string with_tokenizer_file(const std::string& files, const std::string& name, const std::string& text);

/// read_generation_files()'s text with this token as the eos_token of the tokenizer's files. Throws Error::data.
std::string with_eos_token(const std::string& files, const std::string& token);

/// read_generation_files()'s text with these ids before the others that end a text (eos_token_id). document_end: the
/// tokenizer's, which ends texts, and begins them, where the files name nothing.
std::string with_end_tokens(const std::string& files, std::span<const TokenId> ends,
                            std::optional<TokenId> document_end);

/// Whether "tokenizer_files" may have this name.
bool is_tokenizer_file(std::string_view name);

struct GenerationSettings {
  std::vector<TokenId> end;      ///< eos_token_id: each ends a text; empty: not given
  std::optional<TokenId> begin;  ///< bos_token_id
  std::optional<bool> draws;     ///< do_sample; false: always the most probable token
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k, max_new_tokens;
  std::optional<int64_t> max_length;        ///< of prompt and new tokens together
  std::vector<TokenId> suppressed;          ///< never drawn
  std::vector<std::string> without_effect;  ///< settings that would change texts and are not known here: "num_beams 4"
};

/// Reads read_generation_files()'s text: a field of generation_config.json, or, where that file is absent, of
/// config.json; the special tokens also where only the file's field is absent. Throws Error::data, which begins with
/// `where`, for a value of a wrong type or range.
GenerationSettings generation_settings(const std::string& files, std::string_view where);

}  // namespace trireme
