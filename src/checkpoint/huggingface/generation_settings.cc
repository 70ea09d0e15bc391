#include "checkpoint/huggingface/generation_settings.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "base/file.h"
#include "base/json_fields.h"

namespace trireme {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;
constexpr size_t kMostTokenizerFile = size_t{16} << 20;  // Gemma 3's tokenizer_config.json has 1.2 MB

constexpr const char* kTokenizerFiles[] = {"tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
                                           "chat_template.json"};

constexpr const char *kModelType = "model_type", *kTokenizerFilesKey = "tokenizer_files", *kDtype = "dtype",
                     *kWrapper = "wrapper", *kTextConfig = "text_config";
constexpr const char* kKeptWhere = "the model's generation settings";
constexpr std::string_view kTemplates = "additional_chat_templates/", kTemplate = ".jinja";

constexpr const char* kTokenFields[] = {"bos_token_id", "eos_token_id", "pad_token_id", "cls_token_id", "sep_token_id"};
constexpr const char* kKnown[] = {"do_sample",          "min_p",          "temperature", "top_k",          "top_p",
                                  "repetition_penalty", "max_new_tokens", "max_length",  "suppress_tokens"};

/// Settings that change texts there and are not implemented here, with the number that has no effect (null and false
/// never have one).
struct Other {
  const char* name;
  double neutral;
};
constexpr Other kOthers[] = {{"num_beams", 1},
                             {"num_beam_groups", 1},
                             {"diversity_penalty", 0},
                             {"penalty_alpha", 0},
                             {"encoder_repetition_penalty", 1},
                             {"no_repeat_ngram_size", 0},
                             {"encoder_no_repeat_ngram_size", 0},
                             {"bad_words_ids", 0},
                             {"force_words_ids", 0},
                             {"forced_bos_token_id", -1},
                             {"forced_eos_token_id", -1},
                             {"forced_decoder_ids", 0},
                             {"begin_suppress_tokens", 0},
                             {"sequence_bias", 0},
                             {"min_length", 0},
                             {"min_new_tokens", 0},
                             {"typical_p", 1},
                             {"epsilon_cutoff", 0},
                             {"eta_cutoff", 0},
                             {"exponential_decay_length_penalty", 0},
                             {"guidance_scale", 1},
                             {"stop_strings", 0},
                             {"constraints", 0},
                             {"dola_layers", 0},
                             {"watermarking_config", 0}};

/// Settings that change no text of the kinds of sampling that exist here. Names that begin with _ are notes.
constexpr std::string_view kHarmless[] = {"assistant_confidence_threshold",
                                          "assistant_early_exit",
                                          "assistant_lookbehind",
                                          "cache_config",
                                          "cache_implementation",
                                          "chat_format",
                                          "compile_config",
                                          "decoder_start_token_id",
                                          "disable_compile",
                                          "early_stopping",
                                          "is_assistant",
                                          "is_encoder_decoder",
                                          "length_penalty",
                                          "low_memory",
                                          "max_matching_ngram_size",
                                          "max_window_size",
                                          "num_assistant_tokens",
                                          "num_assistant_tokens_schedule",
                                          "num_return_sequences",
                                          "output_attentions",
                                          "output_hidden_states",
                                          "output_logits",
                                          "output_scores",
                                          "prefill_chunk_size",
                                          "prompt_lookup_num_tokens",
                                          "remove_invalid_values",
                                          "renormalize_logits",
                                          "return_dict_in_generate",
                                          "return_legacy_cache",
                                          "target_lookbehind",
                                          "token_healing",
                                          "transformers_version",
                                          "trust_remote_code",
                                          "use_cache"};

/// Whether a key of generation_config.json is not known here.
bool is_unknown(const std::string& name) {
  const auto is = [&](const auto& known) { return name == known; };
  return !name.starts_with('_') && std::ranges::none_of(kTokenFields, is) && std::ranges::none_of(kKnown, is) &&
         std::ranges::none_of(kHarmless, is) &&
         std::ranges::none_of(kOthers, [&](const Other& other) { return name == other.name; });
}

bool is_neutral(const Json& value, double neutral) {
  if (value.is_number()) return value.get<double>() == neutral;
  return value.is_null() || (value.is_boolean() && !value.get<bool>()) || (!value.is_string() && value.empty());
}

/// The fields of one file; empty if it is missing.
class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  const Json* find(const char* name) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  /// A number or a list of numbers; those that no token can have (-1) are left out.
  std::vector<TokenId> ids(const char* name) const {
    std::vector<TokenId> ids;
    const Json* value = find(name);
    if (!value) return ids;
    const auto add = [&](const Json& item) {
      require(json_holds<int64_t>(item) && item.get<int64_t>() <= std::numeric_limits<int32_t>::max(), ErrorKind::data,
              "{}: \"{}\" is {}, expected a token's id or a list of ids", where_, name,
              dump_valid_json(*value).substr(0, 80));
      const auto id = item.get<int64_t>();
      if (id >= 0) ids.push_back(static_cast<TokenId>(id));
    };
    if (!value->is_array()) add(*value);
    if (value->is_array()) std::for_each(value->begin(), value->end(), add);
    return ids;
  }

  /// A number of [lowest, highest].
  std::optional<double> number(const char* name, double lowest, double highest) const {
    const Json* value = find(name);
    if (!value) return std::nullopt;
    const bool right = value->is_number() && value->get<double>() >= lowest && value->get<double>() <= highest;
    require(right, ErrorKind::data, "{}: \"{}\" is {}, expected a number from {} to {}", where_, name,
            dump_valid_json(*value).substr(0, 80), lowest, highest);
    return value->get<double>();
  }

  std::optional<int64_t> count(const char* name) const {
    const Json* value = find(name);
    if (!value) return std::nullopt;
    require(json_holds<int64_t>(*value) && value->get<int64_t>() >= 0, ErrorKind::data,
            "{}: \"{}\" is {}, expected a whole number of at least 0", where_, name,
            dump_valid_json(*value).substr(0, 80));
    return value->get<int64_t>();
  }

  std::optional<bool> flag(const char* name) const {
    const Json* value = find(name);
    if (!value) return std::nullopt;
    require(value->is_boolean(), ErrorKind::data, "{}: \"{}\" is {}, expected true or false", where_, name,
            dump_valid_json(*value).substr(0, 80));
    return value->get<bool>();
  }

 private:
  const Json& object_;
  std::string where_;
};

/// What lies beside the tokenizer's vocabulary.
Json tokenizer_files(const std::string& folder) {
  Json files = Json::object();
  if (!holds_tokenizer(folder)) return files;
  for (const char* name : kTokenizerFiles) {
    const std::string path = folder + "/" + name;
    if (std::filesystem::exists(path)) files[name] = read_text(path, kMostTokenizerFile);
  }
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/" + std::string(kTemplates), none)) {
    const std::string name = std::string(kTemplates) + entry.path().filename().string();
    if (is_tokenizer_file(name) && entry.is_regular_file())
      files[name] = read_text(entry.path().string(), kMostTokenizerFile);
  }
  return files;
}

}  // namespace

bool is_tokenizer_file(std::string_view name) {
  if (std::ranges::find(kTokenizerFiles, name) != std::end(kTokenizerFiles)) return true;
  if (!name.starts_with(kTemplates)) return false;
  const std::string_view file = name.substr(kTemplates.size());
  return file.ends_with(kTemplate) && !file.starts_with('.') && file.find('/') == file.npos;
}

std::string read_generation_files(const std::string& folder, const Json& config) {
  Json kept = Json::object(), generation;
  const Json text = config.value(kTextConfig, Json());  // of a model with other parts
  const auto find = [&](const char* name) {
    const auto found = config.find(name);
    return found == config.end() && text.is_object() ? text.value(name, Json()) : config.value(name, Json());
  };
  const auto keep = [&](const char* name) {
    const bool there = config.contains(name) || (text.is_object() && text.contains(name));
    if (there) kept[name] = find(name);
  };
  for (const char* name : kTokenFields) keep(name);
  for (const char* name : kKnown) keep(name);
  for (const Other& other : kOthers) keep(other.name);
  const std::string path = folder + "/generation_config.json";
  if (std::filesystem::exists(path)) {
    generation = read_json(path, kMostBytes);
    require(generation.is_object(), ErrorKind::data, "{}: expected an object, found {}", path, generation.type_name());
  }
  const Json files = tokenizer_files(folder);
  Json all{{"config", kept}, {"generation_config", generation}, {kModelType, config.value(kModelType, Json())}};
  for (const char* name : {"torch_dtype", "dtype"}) {
    if (const Json found = find(name); found.is_string()) all[kDtype] = found;
  }
  if (text.is_object())
    all[kWrapper] = {{"folder", std::filesystem::absolute(folder).lexically_normal().string()}, {"config", config}};
  if (!files.empty()) all[kTokenizerFilesKey] = files;
  return dump_json(all);
}

Json kept_config(const std::string& files) {
  return files.empty() ? Json() : json_member(parse_json(files, kKeptWhere), "config", kKeptWhere);
}

std::string kept_dtype(const std::string& files) {
  if (files.empty()) return {};
  const Json all = parse_json(files, kKeptWhere);
  const auto found = all.find(kDtype);
  return found != all.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string kept_model_type(const std::string& files) {
  if (files.empty()) return {};
  const Json all = parse_json(files, kKeptWhere);
  const auto found = all.find(kModelType);
  return found != all.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<Wrapper> kept_wrapper(const std::string& files) {
  if (files.empty()) return std::nullopt;
  const Json all = parse_json(files, kKeptWhere);
  const auto found = all.find(kWrapper);
  if (found == all.end()) return std::nullopt;
  return Wrapper{json_field<std::string>(*found, "folder", kKeptWhere),
                 dump_json(json_member(*found, "config", kKeptWhere))};
}

std::string without_tokens(const std::string& files) {
  const std::string type = kept_model_type(files), dtype = kept_dtype(files);
  if (type.empty()) return {};
  Json kept{{"config", Json::object()}, {"generation_config", Json()}, {kModelType, type}};
  if (!dtype.empty()) kept[kDtype] = dtype;
  if (const auto wrapper = kept_wrapper(files))
    kept[kWrapper] = {{"folder", wrapper->folder}, {"config", parse_json(wrapper->config, kKeptWhere)}};
  return dump_json(kept);
}

std::map<std::string, std::string> kept_tokenizer_files(const std::string& files, std::string_view where) {
  std::map<std::string, std::string> texts;
  if (files.empty()) return texts;
  const Json all = parse_json(files, where);
  const auto found = all.find(kTokenizerFilesKey);
  if (found == all.end()) return texts;
  require(found->is_object(), ErrorKind::data, "{}: \"{}\" is {}, expected an object", where, kTokenizerFilesKey,
          found->type_name());
  for (const auto& [name, text] : found->items()) {
    require(text.is_string(), ErrorKind::data, "{}: \"{}\" is {}, expected a text", where, name, text.type_name());
    texts[name] = text.get<std::string>();
  }
  return texts;
}

std::string with_end_tokens(const std::string& files, std::span<const TokenId> ends,
                            std::optional<TokenId> document_end) {
  std::vector<TokenId> all = generation_settings(files, kKeptWhere).end;
  if (all.empty() && document_end) all.push_back(*document_end);
  std::vector<TokenId> ordered(ends.begin(), ends.end());
  for (const TokenId id : all)
    if (std::ranges::find(ordered, id) == ordered.end()) ordered.push_back(id);
  Json made =
      files.empty() ? Json{{"config", Json::object()}, {"generation_config", Json()}} : parse_json(files, kKeptWhere);
  Json &config = made["config"], &own = made["generation_config"];
  if (config.empty() && own.is_null() && document_end) config["bos_token_id"] = *document_end;
  const Json list = ordered.size() == 1 ? Json(ordered.front()) : Json(ordered);
  config["eos_token_id"] = list;
  if (own.is_object()) own["eos_token_id"] = list;
  return dump_json(made);
}

std::string with_tokenizer_file(const std::string& files, const std::string& name, const std::string& text) {
  Json all =
      files.empty() ? Json{{"config", Json::object()}, {"generation_config", Json()}} : parse_json(files, kKeptWhere);
  all[kTokenizerFilesKey][name] = text;
  return dump_json(all);
}

std::string with_eos_token(const std::string& files, const std::string& token) {
  std::map<std::string, std::string> kept = kept_tokenizer_files(files, kKeptWhere);
  kept.try_emplace("tokenizer_config.json", "{}");
  std::string made = files;
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto text = kept.find(name);
    if (text == kept.end()) continue;
    Json config = parse_json(text->second, name);
    require(config.is_object(), ErrorKind::data, "{} is not a JSON object", name);
    config["eos_token"] = token;
    made = with_tokenizer_file(made, name, dump_json(config, 2));
  }
  return made;
}

GenerationSettings generation_settings(const std::string& files, std::string_view where) {
  GenerationSettings settings;
  if (files.empty()) return settings;
  const Json both = parse_json(files, where);
  const Json &config = json_member(both, "config", where), &own = json_member(both, "generation_config", where);
  const Fields model(config, fmt::format("{}: config.json", where)),
      generation(own, fmt::format("{}: generation_config.json", where));
  const Fields& fields = own.is_null() ? model : generation;
  const auto ids = [&](const char* name) { return (fields.find(name) ? fields : model).ids(name); };
  settings.end = ids("eos_token_id");
  if (const auto begin = ids("bos_token_id"); !begin.empty()) settings.begin = begin.front();
  constexpr double kMost = std::numeric_limits<float>::max(), kLeast = std::numeric_limits<float>::min();
  settings.draws = fields.flag("do_sample");
  settings.temperature = fields.number("temperature", 0, kMost);
  settings.min_p = fields.number("min_p", 0, 1);
  settings.top_p = fields.number("top_p", kLeast, 1);
  settings.repetition_penalty = fields.number("repetition_penalty", kLeast, kMost);
  settings.top_k = fields.count("top_k");
  settings.max_new_tokens = fields.count("max_new_tokens");
  settings.max_length = fields.count("max_length");
  settings.suppressed = fields.ids("suppress_tokens");
  for (const Other& other : kOthers) {
    const Json* value = fields.find(other.name);
    if (value && !is_neutral(*value, other.neutral))
      settings.without_effect.push_back(fmt::format("{} {}", other.name, dump_valid_json(*value).substr(0, 80)));
  }
  if (!own.is_object()) return settings;
  for (const auto& [name, value] : own.items()) {  // newer ones, or a program's own
    if (is_unknown(name) && !is_neutral(value, 0))
      settings.without_effect.push_back(fmt::format("{} {}", name.substr(0, 80), dump_valid_json(value).substr(0, 80)));
  }
  return settings;
}

}  // namespace trireme
