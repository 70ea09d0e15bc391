#include "checkpoint/peft/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "checkpoint/huggingface/family_config.h"
#include "text/regex/regex.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostBytes = size_t{16} << 20;

/// Settings that are read here, or that change neither the numbers of a trained adapter nor what its files hold.
const std::set<std::string_view>& known() {
  static const std::set<std::string_view> names{
      // read
      "peft_type", "r", "lora_alpha", "use_rslora", "use_dora", "rank_pattern", "alpha_pattern",
      "base_model_name_or_path", "init_lora_weights", "bias", "lora_bias",
      // which modules: the tensors have to agree
      "target_modules", "exclude_modules", "layers_to_transform", "layers_pattern", "modules_to_save", "fan_in_fan_out",
      "ensure_weight_tying",
      // only of training and bookkeeping
      "lora_dropout", "task_type", "auto_mapping", "peft_version", "revision", "inference_mode", "megatron_core",
      "qalora_group_size", "eva_config", "runtime_config"};
  return names;
}

bool is_off(const Json& value) {
  return value.is_null() || value == false || ((value.is_object() || value.is_array()) && value.empty());
}

/// Starts that leave the base model's weights unchanged; others train on changed ones, which the files do not hold.
void check_start(const Json& json, const std::string& where) {
  const auto found = json.find("init_lora_weights");
  if (found == json.end() || found->is_null() || found->is_boolean()) return;
  require(*found == "gaussian" || *found == "eva" || *found == "orthogonal", ErrorKind::data,
          "{}: \"init_lora_weights\" is {}, whose adapters belong to changed base weights that are not in this folder; "
          "save the adapter with PEFT's path_initial_model_for_weight_conversion, which makes it a plain one",
          where, dump_valid_json(*found).substr(0, 80));
}

template <class T>
ModulePattern<T> read_pattern(const Json& json, const char* name, const std::string& where) {
  ModulePattern<T> pattern;
  const auto found = json.find(name);
  if (found == json.end() || found->is_null()) return pattern;
  require(found->is_object(), ErrorKind::data, "{}: \"{}\" is {}, expected an object", where, name, found->type_name());
  for (const auto& [key, value] : found->items()) {
    require(json_holds<T>(value), ErrorKind::data, "{}: \"{}\" of {} is {}, expected a number", where, name, key,
            dump_valid_json(value).substr(0, 80));
    pattern.emplace_back(key, value.template get<T>());
  }
  return pattern;
}

/// Sub-folders with an adapter: PEFT puts one that is not called "default" there.
std::string adapters_below(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder, unreadable)) {
    if (fs::exists(entry.path() / "adapter_config.json")) names.push_back(entry.path().string());
  }
  std::ranges::sort(names);
  return names.empty() ? "" : fmt::format("; folders with one: {}", fmt::join(names, ", "));
}

/// What single precision multiplies by.
void check_alpha(double alpha, const std::string& what, const std::string& where) {
  require(std::abs(alpha) <= 1e30, ErrorKind::data, "{}: {} is {}, expected a number up to 1e30", where, what, alpha);
}

/// A list of strings, or one; none for null.
std::vector<std::string> read_strings(const Json& json, const char* name, const char* expected,
                                      const std::string& where) {
  std::vector<std::string> strings;
  const auto found = json.find(name);
  if (found == json.end() || found->is_null()) return strings;
  const auto is_string = [](const Json& item) { return item.is_string(); };
  const bool good = found->is_string() || (found->is_array() && std::ranges::all_of(*found, is_string));
  require(good, ErrorKind::data, "{}: \"{}\" is {}, expected {}", where, name, dump_valid_json(*found).substr(0, 80),
          expected);
  if (found->is_string()) return {found->get<std::string>()};
  for (const Json& item : *found) strings.push_back(item.get<std::string>());
  return strings;
}

ModuleChoice read_choice(const Json& json, const char* name, const std::string& where) {
  std::vector<std::string> names = read_strings(json, name, "a list of names or a pattern", where);
  const auto found = json.find(name);
  if (found != json.end() && found->is_string()) return {{}, names.front()};
  return {std::move(names), {}};
}

/// A number, or a list of them.
std::vector<int64_t> read_layers(const Json& json, const std::string& where) {
  std::vector<int64_t> layers;
  const auto found = json.find("layers_to_transform");
  if (found == json.end() || found->is_null()) return layers;
  const Json list = found->is_array() ? *found : Json::array({*found});
  for (const Json& layer : list) {
    require(json_holds<int64_t>(layer), ErrorKind::data,
            "{}: \"layers_to_transform\" is {}, expected a number of a layer or a list of them", where,
            dump_valid_json(*found).substr(0, 80));
    layers.push_back(layer.get<int64_t>());
  }
  return layers;
}

bool matches(const std::string& pattern, std::string_view text, const std::string& where) {
  Regex::Match match{};
  return Regex::Search(Regex(pattern, where), text).next(0, match);
}

bool has(const ModuleChoice& choice, std::string_view module, const std::string& where) {
  if (!choice.pattern.empty()) return matches(fmt::format(R"(\A(?:{})\z)", choice.pattern), module, where);
  return std::ranges::any_of(choice.names, [&](const std::string& name) { return ends_path(module, name); });
}

/// The layer that a path names, as PEFT finds it: the first number behind two names, or behind one of layers_pattern.
std::optional<int64_t> layer_of(const PeftConfig& config, std::string_view module) {
  const auto number_after = [&](const auto& is_before) -> std::optional<int64_t> {
    for (size_t dot = module.find('.'); dot != module.npos; dot = module.find('.', dot + 1)) {
      const std::string_view rest = module.substr(dot + 1);
      int64_t layer = 0;
      const char* const end = std::from_chars(rest.data(), rest.data() + rest.size(), layer).ptr;
      const bool number = end != rest.data() && rest.front() != '-' && end != rest.data() + rest.size() && *end == '.';
      if (number && is_before(module.substr(0, dot))) return layer;
    }
    return std::nullopt;
  };
  if (config.layers_patterns.empty())
    return number_after([](std::string_view before) { return before.find('.') != before.npos; });
  for (const std::string& pattern : config.layers_patterns) {
    const auto layer =
        number_after([&](std::string_view before) { return matches_module(pattern, before, config.where); });
    if (layer) return layer;
  }
  return std::nullopt;
}

template <class T>
T of_module(const ModulePattern<T>& pattern, std::string_view module, T otherwise, const std::string& where) {
  for (const auto& [key, value] : pattern)
    if (matches_module(key, module, where)) return value;
  return otherwise;
}

}  // namespace

bool ends_path(std::string_view path, std::string_view name) {
  if (path == name) return true;
  return path.size() > name.size() && path.ends_with(name) && path[path.size() - name.size() - 1] == '.';
}

bool matches_module(const std::string& pattern, std::string_view module, std::string_view where) {
  const Regex regex(fmt::format(R"(\A(.*\.)?({})\z)", pattern), where);
  Regex::Match match{};
  return Regex::Search(regex, module).next(0, match);
}

std::string PeftConfig::leaves_out(std::string_view module) const {
  if (has(excluded, module, where)) return fmt::format("\"exclude_modules\" excludes {}", module);
  const bool saved = std::ranges::any_of(modules_to_save, [&](const std::string& name) {
    return matches(fmt::format(R"(\A(?:|.*\.)(?:{})(?:\z|\.))", name), module, where);
  });
  if (saved) return fmt::format("\"modules_to_save\" trains {} in full", module);
  if (targets.empty() || adapts_all_linears()) return "";
  if (!has(targets, module, where))
    return fmt::format("\"target_modules\" is {}, which has no {}",
                       targets.pattern.empty() ? fmt::format("{}", fmt::join(targets.names, ", ")) : targets.pattern,
                       module);
  if (layers.empty() || !targets.pattern.empty() || std::ranges::find(targets.names, module) != targets.names.end())
    return "";
  const std::optional<int64_t> layer = layer_of(*this, module);
  if (layer && std::ranges::find(layers, *layer) != layers.end()) return "";
  return fmt::format("\"layers_to_transform\" is {}, which leaves out {}", fmt::join(layers, ", "), module);
}

bool PeftConfig::saves(std::string_view module) const {
  for (size_t end = module.find('.');; end = module.find('.', end + 1)) {
    const std::string_view part = module.substr(0, end);
    const auto ends = [&](const std::string& name) { return part.ends_with(name); };
    if (std::ranges::any_of(modules_to_save, ends)) return true;
    if (end == module.npos) return false;
  }
}

int64_t PeftConfig::rank_of(std::string_view module) const { return of_module(rank_pattern, module, rank, where); }

double PeftConfig::scale_of(std::string_view module) const {
  const auto r = static_cast<double>(rank_of(module));
  return of_module(alpha_pattern, module, alpha, where) / (rank_stabilized ? std::sqrt(r) : r);
}

PeftConfig read_peft_config(const std::string& folder) {
  PeftConfig config;
  config.where = folder + "/adapter_config.json";
  require(fs::exists(config.where), ErrorKind::io,
          "{} is not an adapter of PEFT: it has no adapter_config.json; give the folder that save_pretrained() wrote{}",
          folder, adapters_below(folder));
  const Json json = read_json(config.where, kMostBytes);
  const auto type = json_field<std::string>(json, "peft_type", config.where);
  require(type == "LORA", ErrorKind::data, "{}: \"peft_type\" is {}; only LORA is supported", config.where, type);
  for (const auto& [name, value] : json.items())
    require(known().contains(name) || is_off(value), ErrorKind::data,
            "{}: \"{}\" is {}, which this program does not support; merge the adapter with PEFT's merge_and_unload() "
            "and use the merged model",
            config.where, name, dump_valid_json(value).substr(0, 80));
  check_start(json, config.where);
  require(!field_or<bool>(json, "lora_bias", false, config.where), ErrorKind::data,
          "{}: \"lora_bias\" is true, which this program does not support; merge the adapter with PEFT's "
          "merge_and_unload() and use the merged model",
          config.where);
  const double dropout = field_or<double>(json, "lora_dropout", 0, config.where);
  require(dropout >= 0 && dropout < 1, ErrorKind::data,
          "{}: \"lora_dropout\" is {}, expected a number from 0 to below 1", config.where, dropout);
  config.rank = field_or<int64_t>(json, "r", 8, config.where);
  config.alpha = field_or<double>(json, "lora_alpha", 8, config.where);
  config.rank_stabilized = field_or<bool>(json, "use_rslora", false, config.where);
  config.dora = field_or<bool>(json, "use_dora", false, config.where);
  config.rank_pattern = read_pattern<int64_t>(json, "rank_pattern", config.where);
  config.alpha_pattern = read_pattern<double>(json, "alpha_pattern", config.where);
  if (const auto base = json.find("base_model_name_or_path"); base != json.end() && base->is_string())
    config.base = base->get<std::string>();
  require(config.rank > 0, ErrorKind::data, "{}: \"r\" is {}, expected a positive number", config.where, config.rank);
  for (const auto& [module, rank] : config.rank_pattern)
    require(rank > 0, ErrorKind::data, "{}: \"rank_pattern\" of {} is {}, expected a positive number", config.where,
            module, rank);
  check_alpha(config.alpha, "\"lora_alpha\"", config.where);
  for (const auto& [module, alpha] : config.alpha_pattern)
    check_alpha(alpha, "\"alpha_pattern\" of " + module, config.where);
  config.targets = read_choice(json, "target_modules", config.where);
  config.excluded = read_choice(json, "exclude_modules", config.where);
  config.layers = read_layers(json, config.where);
  config.layers_patterns = read_strings(json, "layers_pattern", "a name or a list of names", config.where);
  config.modules_to_save = read_strings(json, "modules_to_save", "a list of names", config.where);
  return config;
}

}  // namespace trireme
