#include "checkpoint/huggingface/decoder_config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json_fields.h"
#include "checkpoint/huggingface/family_config.h"

namespace trireme {
namespace {

constexpr SizeFields kSizes = {"vocab_size",  "max_position_embeddings", "num_hidden_layers", "num_attention_heads",
                               "hidden_size", "intermediate_size"};
constexpr const char *kFull = "full_attention", *kWindow = "sliding_attention", *kState = "linear_attention";

bool has(const Json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && !found->is_null();
}

/// A size that may be absent; null is absent for all but the heads of keys.
int64_t size_or(const Json& config, const char* key, int64_t otherwise, std::string_view where) {
  return has(config, key) ? size_field(config, key, where) : otherwise;
}

void read_heads(const Json& config, const DecoderValues& values, Spec& spec, std::string_view where) {
  const bool said = config.contains("num_key_value_heads");
  const int64_t otherwise = !said && values.key_heads > 0 ? values.key_heads : spec.heads;
  const int64_t key_heads = size_or(config, "num_key_value_heads", otherwise, where);
  require(spec.heads % key_heads == 0, ErrorKind::data,
          "{}: \"num_key_value_heads\" is {}, which does not divide \"num_attention_heads\", {}", where, key_heads,
          spec.heads);
  spec.key_heads = key_heads == spec.heads ? 0 : key_heads;
  int64_t head_size = size_or(config, "head_dim", values.head_size, where);
  if (spec.width % spec.heads == 0 && head_size == spec.width / spec.heads) head_size = 0;
  spec.head_size = head_size;
  require(head_size > 0 || spec.width % spec.heads == 0, ErrorKind::data,
          "{}: \"num_attention_heads\" is {}, which does not divide \"hidden_size\", {}, and \"head_dim\" is missing",
          where, spec.heads, spec.width);
}

/// Per layer, whether it has a window; empty: nothing says so.
std::vector<bool> listed_windows(const Json& config, int64_t layers, std::string_view where) {
  std::vector<bool> windows;
  if (!has(config, "layer_types")) return windows;
  for (const Json& type : json_array(config, "layer_types", where)) {
    require(type == kFull || type == kWindow, ErrorKind::data, "{}: \"layer_types\" has {}; known: \"{}\" and \"{}\"",
            where, dump_valid_json(type).substr(0, 80), kFull, kWindow);
    windows.push_back(type == kWindow);
  }
  require(std::ssize(windows) == layers, ErrorKind::data,
          "{}: \"layer_types\" has {} entries, expected {}, one per layer", where, windows.size(), layers);
  return windows;
}

/// Per layer, whether its queries and keys turn.
std::vector<bool> read_turning(const Json& config, const DecoderValues& values, int64_t layers,
                               std::string_view where) {
  std::vector<bool> turning(static_cast<size_t>(layers), true);
  if (!values.unturned_layers) return turning;
  if (has(config, "no_rope_layers")) {
    const Json& list = json_array(config, "no_rope_layers", where);
    require(std::ssize(list) >= layers, ErrorKind::data,
            "{}: \"no_rope_layers\" has {} entries, expected {}, one per layer", where, list.size(), layers);
    for (size_t i = 0; i < turning.size(); ++i) {
      require(list[i] == 0 || list[i] == 1, ErrorKind::data, "{}: \"no_rope_layers\" has {}, expected 0 or 1", where,
              dump_valid_json(list[i]).substr(0, 80));
      turning[i] = list[i] == 1;
    }
    return turning;
  }
  const int64_t interval = size_or(config, "no_rope_layer_interval", 4, where);
  for (int64_t i = 0; i < layers; ++i) turning[static_cast<size_t>(i)] = (i + 1) % interval != 0;
  return turning;
}

std::vector<bool> read_windows(const Json& config, const DecoderValues& values, int64_t layers,
                               const std::vector<bool>& turning, std::string_view where) {
  if (values.windows == WindowLayers::all) {
    require(!has(config, "layer_types"), ErrorKind::data,
            "{}: \"layer_types\" is not supported in this family: its layers are all alike", where);
    return std::vector<bool>(static_cast<size_t>(layers), true);
  }
  std::vector<bool> windows = listed_windows(config, layers, where);
  if (!windows.empty()) return windows;
  const int64_t first = field_or<int64_t>(config, "max_window_layers", 28, where);
  const int64_t interval = values.interval_key
                               ? size_or(config, "sliding_window_pattern", values.window_interval, where)
                               : values.window_interval;
  for (int64_t i = 0; i < layers; ++i) {
    windows.push_back(values.windows == WindowLayers::last       ? i >= first
                      : values.windows == WindowLayers::unturned ? !turning[static_cast<size_t>(i)]
                                                                 : (i + 1) % interval != 0);
  }
  return windows;
}

void read_layers(const Json& config, const DecoderValues& values, Spec& spec, std::string_view where) {
  const std::vector<bool> turning = read_turning(config, values, spec.layers, where);
  std::vector<bool> windows(turning.size(), false);
  const bool listed = values.windows == WindowLayers::unturned && has(config, "layer_types");
  const bool optional = values.windows == WindowLayers::last || (values.windows == WindowLayers::unturned && !listed);
  const bool on =
      values.windows != WindowLayers::none && (!optional || field_or<bool>(config, "use_sliding_window", false, where));
  const bool said = config.contains("sliding_window");
  if (on && (said ? has(config, "sliding_window") : values.window > 0)) {
    const auto window = said ? json_field<int64_t>(config, "sliding_window", where) : values.window;
    require(window > 0, ErrorKind::data, "{}: \"sliding_window\" is {}; it must be at least 1", where, window);
    windows = read_windows(config, values, spec.layers, turning, where);
    if (std::ranges::find(windows, true) != windows.end()) spec.window = window;
  }
  for (size_t i = 0; i < turning.size(); ++i)
    spec.attention_layers += windows[i] ? (turning[i] ? 'W' : 'w') : (turning[i] ? 'F' : 'f');
  if (spec.attention_layers.find_first_not_of('F') == std::string::npos) spec.attention_layers.clear();
}

struct StateSize {
  const char* key;
  int64_t Spec::*field;
  int64_t otherwise;
};
constexpr StateSize kStateSizes[] = {{"linear_num_key_heads", &Spec::delta_key_heads, 16},
                                     {"linear_num_value_heads", &Spec::delta_value_heads, 32},
                                     {"linear_key_head_dim", &Spec::delta_key_size, 128},
                                     {"linear_value_head_dim", &Spec::delta_value_size, 128},
                                     {"linear_conv_kernel_dim", &Spec::delta_taps, 4}};

/// Which layers have a state, and its sizes.
void read_states(const Json& config, Spec& spec, std::string_view where) {
  spec.attention_layers.clear();
  if (has(config, "layer_types")) {
    for (const Json& type : json_array(config, "layer_types", where)) {
      require(type == kFull || type == kState, ErrorKind::data, "{}: \"layer_types\" has {}; known: \"{}\" and \"{}\"",
              where, dump_valid_json(type).substr(0, 80), kFull, kState);
      spec.attention_layers += type == kState ? 'D' : 'F';
    }
    require(std::ssize(spec.attention_layers) == spec.layers, ErrorKind::data,
            "{}: \"layer_types\" has {} entries, expected {}, one per layer", where, spec.attention_layers.size(),
            spec.layers);
  } else {
    const int64_t interval = size_or(config, "full_attention_interval", 4, where);
    for (int64_t i = 0; i < spec.layers; ++i) spec.attention_layers += (i + 1) % interval == 0 ? 'F' : 'D';
  }
  if (spec.attention_layers.find('D') == std::string::npos) return spec.attention_layers.clear();
  for (const StateSize& size : kStateSizes) spec.*size.field = size_or(config, size.key, size.otherwise, where);
}

void write_states(const Spec& spec, Json& config) {
  Json types = Json::array();
  for (int64_t i = 0; i < spec.layers; ++i) types.push_back(spec.has_state(i) ? kState : kFull);
  config["layer_types"] = types;
  if (!spec.has_states()) return;
  for (const StateSize& size : kStateSizes) config[size.key] = spec.*size.field;
}

/// A cap that may be null: none.
float read_cap(const Json& config, const char* key, double otherwise, std::string_view where) {
  if (config.contains(key) && config.at(key).is_null()) return 0;
  const float cap = rate_or(config, key, otherwise, where);
  require(cap > 0 || (cap == 0 && !config.contains(key)), ErrorKind::data,
          "{}: \"{}\" is {}; it must be above 0, or null for none", where, key, cap);
  return cap;
}

void read_scales(const Json& config, const DecoderValues& values, Spec& spec, std::string_view where) {
  if (values.scales_embedding) spec.embedding_scale = std::sqrt(static_cast<float>(spec.width));
  if (values.scales_by_scalar) {
    const auto scalar = static_cast<double>(rate_or(config, "query_pre_attn_scalar", 256, where));
    require(scalar > 0, ErrorKind::data, "{}: \"query_pre_attn_scalar\" is {}; it must be above 0", where, scalar);
    const bool usual = scalar == static_cast<double>(spec.head_dim());
    spec.attention_scale = usual ? 0 : static_cast<float>(1 / std::sqrt(scalar));
  }
  if (values.attention_cap_key)
    spec.attention_cap = read_cap(config, "attn_logit_softcapping", values.attention_cap, where);
  if (values.logits_cap_key) spec.logits_cap = read_cap(config, "final_logit_softcapping", values.logits_cap, where);
  if (!values.multipliers) return;
  spec.embedding_scale = rate_or(config, "embedding_multiplier", 1, where);
  spec.residual_scale = rate_or(config, "residual_multiplier", 1, where);
  spec.attention_scale = rate_or(config, "attention_multiplier", 1, where);
  require(spec.attention_scale > 0, ErrorKind::data, "{}: \"attention_multiplier\" is {}; it must be above 0", where,
          spec.attention_scale);
  const float logits = rate_or(config, "logits_scaling", 1, where);
  require(logits > 0, ErrorKind::data, "{}: \"logits_scaling\" is {}; it must be above 0", where, logits);
  spec.logits_scale = 1 / logits;
}

void read_biases(const Json& config, const DecoderValues& values, Spec& spec, std::string_view where) {
  const bool attention =
      values.attention_bias == AttentionBias::key && field_or<bool>(config, "attention_bias", false, where);
  const bool mlp = values.mlp_bias && field_or<bool>(config, "mlp_bias", false, where);
  spec.biases = {.qkv = attention || values.attention_bias == AttentionBias::queries,
                 .attention_out = attention,
                 .mlp_in = mlp,
                 .mlp_out = mlp,
                 .norm = false};
}

void write_layers(const Spec& spec, const DecoderValues& values, Json& config) {
  if (values.unturned_layers) {
    Json turning = Json::array();
    for (int64_t i = 0; i < spec.layers; ++i) turning.push_back(spec.turns(i) ? 1 : 0);
    config["no_rope_layers"] = turning;
  }
  if (values.windows == WindowLayers::none) return;
  config["sliding_window"] = spec.window > 0 ? Json(spec.window) : Json();
  if (values.windows == WindowLayers::all) return;
  Json types = Json::array();
  int64_t first = spec.layers;
  for (int64_t i = spec.layers - 1; i >= 0; --i) {
    if (spec.has_window(i)) first = i;
  }
  for (int64_t i = 0; i < spec.layers; ++i) types.push_back(spec.has_window(i) ? kWindow : kFull);
  config["layer_types"] = types;
  if (values.windows != WindowLayers::repeats) config["use_sliding_window"] = spec.window > 0;
  if (values.windows == WindowLayers::last) config["max_window_layers"] = first;
}

Json cap_or_null(float cap) { return cap > 0 ? Json(shortest_double(cap)) : Json(); }

void write_scales(const Spec& spec, const DecoderValues& values, Json& config) {
  const auto head_dim = static_cast<double>(spec.head_dim());
  const double scale = static_cast<double>(spec.attention_scale);
  if (values.scales_by_scalar)
    config["query_pre_attn_scalar"] = scale > 0 ? std::llround(1 / (scale * scale)) : spec.head_dim();
  if (values.attention_cap_key) config["attn_logit_softcapping"] = cap_or_null(spec.attention_cap);
  if (values.logits_cap_key) config["final_logit_softcapping"] = cap_or_null(spec.logits_cap);
  if (!values.multipliers) return;
  config["embedding_multiplier"] = shortest_double(spec.embedding_scale);
  config["residual_multiplier"] = shortest_double(spec.residual_scale);
  config["attention_multiplier"] =
      scale > 0 ? shortest_double(spec.attention_scale) : shortest_double(static_cast<float>(1 / std::sqrt(head_dim)));
  config["logits_scaling"] = shortest_double(1 / spec.logits_scale);
}

/// transformers takes null for a value only where null has its own meaning.
void require_no_nulls(const Json& config, const DecoderValues& values, std::string_view where) {
  std::vector<const char*> keys = {"rms_norm_eps", "tie_word_embeddings", "rope_theta", values.activation_key};
  if (values.attention_bias == AttentionBias::key) keys.push_back("attention_bias");
  if (values.mlp_bias) keys.push_back("mlp_bias");
  if (values.interval_key) keys.push_back("sliding_window_pattern");
  if (values.window_theta > 0) keys.push_back("rope_local_base_freq");
  if (values.scales_by_scalar) keys.push_back("query_pre_attn_scalar");
  for (const char* key : keys)
    require(!config.contains(key) || has(config, key), ErrorKind::data,
            "{}: \"{}\" is null, expected a value; remove the key to use the family's", where, key);
}

}  // namespace

Spec read_decoder_config(const Json& config, const DecoderValues& values, std::string_view where) {
  require_no_nulls(config, values, where);
  Spec spec;
  read_sizes(config, kSizes, spec, where);
  spec.norm = NormKind::rms;
  spec.gated = true;
  spec.norm_place = values.norms;
  spec.norm_offset = values.norm_offset;
  spec.query_keys = values.query_keys;
  spec.norm_epsilon = rate_or(config, "rms_norm_eps", values.epsilon, where);
  require(spec.norm_epsilon > 0, ErrorKind::data, "{}: \"rms_norm_eps\" is {}; it must be above 0", where,
          spec.norm_epsilon);
  spec.activation = read_activation(config, values.activation_key, values.activation, where);
  if (values.old_gelu && spec.activation == Activation::gelu_erf) spec.activation = Activation::gelu_tanh;
  require_switch(config, "use_bidirectional_attention", false, where);
  spec.tied_head = field_or<bool>(config, "tie_word_embeddings", values.tied, where);
  read_heads(config, values, spec, where);
  read_biases(config, values, spec, where);
  read_layers(config, values, spec, where);
  spec.attention_gate = values.attention_gate;
  if (values.states) read_states(config, spec, where);
  read_positions(config, values, spec, where);
  read_scales(config, values, spec, where);
  spec.attention_dropout = rate_or(config, "attention_dropout", 0, where);
  if (!values.branch_dropout) return spec;
  spec.residual_dropout = rate_or(config, "resid_pdrop", 0, where);
  spec.embedding_dropout = rate_or(config, "embd_pdrop", 0, where);
  return spec;
}

void write_decoder_config(const Spec& spec, const DecoderValues& values, Json& config) {
  write_sizes(spec, kSizes, config);
  config["num_key_value_heads"] = spec.kv_heads();
  config["head_dim"] = spec.head_dim();
  config[values.activation_key] =
      spec.activation == Activation::gelu_tanh ? "gelu_pytorch_tanh" : std::string(activation_name(spec.activation));
  config["rms_norm_eps"] = shortest_double(spec.norm_epsilon);
  config["attention_dropout"] = shortest_double(spec.attention_dropout);
  if (values.branch_dropout) {
    config["resid_pdrop"] = shortest_double(spec.residual_dropout);
    config["embd_pdrop"] = shortest_double(spec.embedding_dropout);
  }
  if (values.attention_bias == AttentionBias::key) config["attention_bias"] = spec.biases.attention_out;
  if (values.mlp_bias) config["mlp_bias"] = spec.biases.mlp_in;
  write_layers(spec, values, config);
  if (values.states) write_states(spec, config);
  write_positions(spec, values, config);
  write_scales(spec, values, config);
}

bool decoder_config_expresses(const Spec& spec, const DecoderValues& values) {
  if (spec.head != HeadKind::language_model || spec.position != Position::rotary || spec.norm != NormKind::rms)
    return false;
  // transformers counts the pairs of longrope's factors by the width there.
  if (spec.rotary.kind == RotaryKind::longrope && values.longrope && spec.head_size > 0) return false;
  Spec same = spec;
  same.vocabulary_rows = spec.vocabulary;
  if (!values.branch_dropout) same.residual_dropout = same.embedding_dropout = 0;
  Json config;
  write_decoder_config(same, values, config);
  config["tie_word_embeddings"] = same.tied_head;
  try {
    return read_decoder_config(config, values, "") == same;
  } catch (const Error&) {  // a value that the family cannot have
    return false;
  }
}

}  // namespace trireme
