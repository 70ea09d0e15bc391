#include "model/model_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/numbers.h"
#include "config/schema.h"
#include "model/presets.h"

namespace trireme {
namespace {

/// The options of the group model, and where they come from.
class Chosen {
 public:
  Chosen(const ModelOptions& model, const OptionOrigins& origins, const OptionNames& names)
      : options(model), origins_(origins), names_(names) {}
  explicit Chosen(const LoadedConfig& loaded) : Chosen(loaded.config.model, loaded.origins, loaded.config.names) {}

  const ModelOptions& options;

  bool has(const std::string& option) const { return origins_.contains(option); }
  bool given(const std::string& option) const { return trireme::given(origins_, option); }
  std::string where(const std::string& option) const { return trireme::where(origins_, option, names_); }

 private:
  const OptionOrigins& origins_;
  const OptionNames& names_;
};

int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

void set_sizes(Spec& spec, const Chosen& chosen) {
  const ModelOptions& m = chosen.options;
  if (chosen.has("model.layers")) spec.layers = m.layers;
  if (chosen.has("model.heads")) spec.heads = m.heads;
  if (chosen.has("model.width")) {
    spec.width = m.width;
    spec.inner_width = 4 * m.width;
  }
  if (chosen.has("model.inner-width") && m.inner_width > 0) spec.inner_width = m.inner_width;
  if (chosen.has("model.context")) spec.context = m.context;
  // The usual sizes are written as 0, as importers do, so that equal models have equal specs.
  if (chosen.has("model.key-heads")) spec.key_heads = m.key_heads == spec.heads ? 0 : m.key_heads;
  if (chosen.has("model.head-size")) spec.head_size = m.head_size * spec.heads == spec.width ? 0 : m.head_size;
  require(spec.heads % spec.kv_heads() == 0, ErrorKind::config,
          "{} is {} and does not divide {}, which is {}; numbers that do: {}", chosen.where("model.key-heads"),
          spec.kv_heads(), chosen.where("model.heads"), spec.heads, near_divisors(spec.heads, spec.kv_heads()));
  require(spec.head_size > 0 || spec.width % spec.heads == 0, ErrorKind::config,
          "{} is {} and does not divide {}, which is {}; give both", chosen.where("model.heads"), spec.heads,
          chosen.where("model.width"), spec.width);
}

/// The values of a head that turn, rounded down as NeoX does; of a resized preset the same share, whatever rounding its
/// quotient suffered.
int64_t rotary_dims(int64_t head_dim, double fraction, bool given) {
  constexpr double kQuotientError = 1e-9;
  return static_cast<int64_t>(static_cast<double>(head_dim) * fraction + (given ? 0 : kQuotientError));
}

/// The options of each kind of scaling; all kinds have a factor and an attention factor.
const std::map<std::string, std::vector<RotaryKind>>& scaling_options() {
  using enum RotaryKind;
  static const std::map<std::string, std::vector<RotaryKind>> kOptions{
      {"model.rotary-factor", {linear, dynamic, llama3, yarn}},
      {"model.rotary-attention-factor", {linear, dynamic, llama3, yarn}},
      {"model.rotary-original-context", {dynamic, llama3, yarn}},
      {"model.rotary-low", {llama3}},
      {"model.rotary-high", {llama3}},
      {"model.rotary-beta-fast", {yarn}},
      {"model.rotary-beta-slow", {yarn}},
      {"model.rotary-truncate", {yarn}}};
  return kOptions;
}

void set_rotary_scaling(RotaryScaling& scaling, const Chosen& chosen) {
  const ModelOptions& m = chosen.options;
  if (chosen.has("model.rotary-scaling") && m.rotary_scaling != scaling.kind) scaling = {.kind = m.rotary_scaling};
  for (const auto& [option, kinds] : scaling_options())
    require(!chosen.given(option) || std::ranges::find(kinds, scaling.kind) != kinds.end(), ErrorKind::config,
            "{} is given, but model.rotary-scaling is {}, which does not use it; remove it or choose another scaling",
            chosen.where(option), name_of(scaling.kind));
  if (chosen.has("model.rotary-original-context")) scaling.original_context = m.rotary_original_context;
  if (chosen.has("model.rotary-low")) scaling.low = static_cast<float>(m.rotary_low);
  if (chosen.has("model.rotary-high")) scaling.high = static_cast<float>(m.rotary_high);
  if (chosen.has("model.rotary-beta-fast")) scaling.beta_fast = static_cast<float>(m.rotary_beta_fast);
  if (chosen.has("model.rotary-beta-slow")) scaling.beta_slow = static_cast<float>(m.rotary_beta_slow);
  if (chosen.has("model.rotary-truncate")) scaling.truncate = m.rotary_truncate;
  const bool other_factor = chosen.has("model.rotary-factor");
  if (other_factor) scaling.factor = static_cast<float>(m.rotary_factor);
  if (chosen.has("model.rotary-attention-factor") && m.rotary_attention_factor > 0)
    scaling.attention_factor = static_cast<float>(m.rotary_attention_factor);
  else if (other_factor)
    scaling.attention_factor = static_cast<float>(
        default_attention_factor(scaling.kind, static_cast<double>(scaling.factor), scaling.original_context));
}

/// A pattern repeated to the number of layers.
void set_windows(Spec& spec, const Chosen& chosen) {
  const ModelOptions& m = chosen.options;
  constexpr const char* kOptions[] = {"model.layers", "model.window", "model.attention-layers",
                                      "model.window-rotary-base"};
  if (std::ranges::none_of(kOptions, [&](const char* option) { return chosen.has(option); })) return;
  if (chosen.has("model.window")) spec.window = m.window;
  if (chosen.has("model.window-rotary-base")) spec.window_rotary_base = static_cast<float>(m.window_rotary_base);
  std::string pattern = spec.attention_layers;
  if (chosen.has("model.attention-layers")) pattern = m.attention_layers;
  if (pattern.empty() && spec.window > 0) pattern = "W";
  require(pattern.find_first_not_of("FWfwD") == std::string::npos, ErrorKind::config,
          "{} is \"{}\", expected letters F, W, f, w and D", chosen.where("model.attention-layers"), pattern);
  const bool windows = pattern.find_first_of("Ww") != std::string::npos;
  require(!windows || spec.window > 0, ErrorKind::config,
          "{} is \"{}\" and has layers with a window, but {} is 0; set --model.window KEYS",
          chosen.where("model.attention-layers"), pattern, chosen.where("model.window"));
  if (!windows && pattern.find_first_of("fwD") == std::string::npos) pattern.clear();  // all layers are alike
  require(windows || spec.window == 0, ErrorKind::config,
          "{} is {}, but {} is \"{}\" and has no layer with a window (W or w); remove one of them",
          chosen.where("model.window"), spec.window, chosen.where("model.attention-layers"), pattern);
  require(spec.window_rotary_base == 0 || windows, ErrorKind::config,
          "{} is {}, but no layer has a window; remove it or set --model.window KEYS",
          chosen.where("model.window-rotary-base"), spec.window_rotary_base);
  spec.attention_layers.clear();
  for (int64_t layer = 0; layer < spec.layers && !pattern.empty(); ++layer)
    spec.attention_layers += pattern[static_cast<size_t>(layer) % pattern.size()];
}

/// Sizes of layers with a state.
void set_states(Spec& spec, const Chosen& chosen) {
  const ModelOptions& m = chosen.options;
  if (chosen.has("model.attention-gate")) spec.attention_gate = m.attention_gate;
  if (chosen.has("model.delta-key-heads")) spec.delta_key_heads = m.delta_key_heads;
  if (chosen.has("model.delta-value-heads")) spec.delta_value_heads = m.delta_value_heads;
  if (chosen.has("model.delta-key-size")) spec.delta_key_size = m.delta_key_size;
  if (chosen.has("model.delta-value-size")) spec.delta_value_size = m.delta_value_size;
  if (chosen.has("model.delta-taps")) spec.delta_taps = m.delta_taps;
}

void set_positions(Spec& spec, const Chosen& chosen, double rotary_fraction) {
  const ModelOptions& m = chosen.options;
  if (chosen.has("model.position")) {
    spec.position = m.position;
    if (m.position == Position::rotary) spec.position_offset = 0;
  }
  if (chosen.has("model.position-offset")) spec.position_offset = m.position_offset;
  if (chosen.has("model.rotary-fraction")) rotary_fraction = m.rotary_fraction;
  if (chosen.has("model.rotary-base")) spec.rotary_base = static_cast<float>(m.rotary_base);
  if (spec.position == Position::rotary) {
    spec.rotary_dims = rotary_dims(spec.head_dim(), rotary_fraction, chosen.has("model.rotary-fraction"));
    set_rotary_scaling(spec.rotary, chosen);
    return;
  }
  spec.rotary_dims = 0;
  for (const char* option : {"model.rotary-fraction", "model.rotary-base", "model.rotary-scaling"})
    require(!chosen.given(option), ErrorKind::config,
            "{} is given, but positions are learned; remove it or set --model.position rotary", chosen.where(option));
}

void set_biases(Biases& biases, const Chosen& chosen) {
  const ModelOptions& m = chosen.options;
  if (chosen.has("model.bias"))
    biases = {.qkv = m.bias, .attention_out = m.bias, .mlp_in = m.bias, .mlp_out = m.bias, .norm = m.bias};
  if (chosen.has("model.qkv-bias")) biases.qkv = m.qkv_bias;
  if (chosen.has("model.attention-out-bias")) biases.attention_out = m.attention_out_bias;
  if (chosen.has("model.mlp-in-bias")) biases.mlp_in = m.mlp_in_bias;
  if (chosen.has("model.mlp-out-bias")) biases.mlp_out = m.mlp_out_bias;
  if (chosen.has("model.norm-bias")) biases.norm = m.norm_bias;
}

/// Choices of decoders since Llama.
void set_decoder(Spec& spec, const Chosen& chosen) {
  const ModelOptions& m = chosen.options;
  if (chosen.has("model.norm")) spec.norm = m.norm;
  if (spec.norm == NormKind::rms && !chosen.has("model.norm-bias")) spec.biases.norm = false;
  if (chosen.has("model.norm-offset")) spec.norm_offset = static_cast<float>(m.norm_offset);
  require(spec.norm == NormKind::rms || spec.norm_offset == 0, ErrorKind::config,
          "{} is 1, but {} is layer; remove it or set --model.norm rms", chosen.where("model.norm-offset"),
          chosen.where("model.norm"));
  require(spec.norm == NormKind::layer || !spec.biases.norm, ErrorKind::config,
          "{} is true, but {} is rms, which has no bias; remove it", chosen.where("model.norm-bias"),
          chosen.where("model.norm"));
  if (chosen.has("model.gated")) spec.gated = m.gated;
  if (chosen.has("model.query-keys")) spec.query_keys = m.query_keys;
  if (chosen.has("model.attention-scale")) spec.attention_scale = static_cast<float>(m.attention_scale);
  if (chosen.has("model.attention-cap")) spec.attention_cap = static_cast<float>(m.attention_cap);
  if (chosen.has("model.embedding-scale")) spec.embedding_scale = static_cast<float>(m.embedding_scale);
  if (chosen.has("model.residual-scale")) spec.residual_scale = static_cast<float>(m.residual_scale);
  if (chosen.has("model.logits-scale")) spec.logits_scale = static_cast<float>(m.logits_scale);
  if (chosen.has("model.logits-cap")) spec.logits_cap = static_cast<float>(m.logits_cap);
}

void set_choices(Spec& spec, const Chosen& chosen) {
  const ModelOptions& m = chosen.options;
  if (chosen.has("model.activation")) spec.activation = m.activation;
  if (spec.head == HeadKind::masked_language_model) spec.head_activation = spec.activation;
  if (chosen.has("model.norm-place")) {
    spec.norm_place = m.norm_place;
    spec.final_norm = m.norm_place != NormPlace::post && spec.head == HeadKind::language_model;
  }
  if (chosen.has("model.residual")) spec.residual = m.residual;
  if (chosen.has("model.norm-epsilon")) spec.norm_epsilon = static_cast<float>(m.norm_epsilon);
  if (chosen.has("model.tied-head")) spec.tied_head = m.tied_head;
  set_biases(spec.biases, chosen);
  set_decoder(spec, chosen);
}

double rotary_fraction_of(const Spec& spec) {
  return spec.position == Position::rotary
             ? static_cast<double>(spec.rotary_dims) / static_cast<double>(spec.head_dim())
             : 1.0;
}

Spec with_chosen(Spec spec, const Chosen& chosen) {
  const double rotary_fraction = rotary_fraction_of(spec);
  set_sizes(spec, chosen);
  set_positions(spec, chosen, rotary_fraction);
  set_windows(spec, chosen);
  set_states(spec, chosen);
  set_choices(spec, chosen);
  set_dropout(spec, chosen.options);
  return spec;
}

/// A new model except its vocabulary, which may depend on the data.
Spec new_model(const Chosen& chosen) {
  const ModelOptions& m = chosen.options;
  Spec spec;
  if (!m.preset.empty()) {
    spec = preset(m.preset).spec;
  } else {  // the defaults of the options
    spec.layers = m.layers;
    spec.heads = m.heads;
    spec.width = m.width;
    spec.inner_width = 4 * m.width;
    spec.context = m.context;
  }
  spec = with_chosen(spec, chosen);
  require(
      spec.residual != Residual::parallel || spec.biases.mlp_out, ErrorKind::config,
      "{} is parallel and the MLP has no bias ({}): GPT-NeoX drops the attention's output from such a model, so its "
      "configuration does not describe what it computes; set --model.mlp-out-bias true or --model.residual sequential",
      chosen.where("model.residual"),
      chosen.where(chosen.has("model.mlp-out-bias") ? "model.mlp-out-bias" : "model.bias"));
  if (m.vocabulary > 0) spec.vocabulary = m.vocabulary;
  return spec;
}

/// Sets the options of the group model to their resolved values; those not given get an origin.
class Settler {
 public:
  explicit Settler(LoadedConfig& loaded) : loaded_(loaded) {}

  void set(const char* name, const Value& value, const std::string& origin) {
    const Option& option = *schema().find(std::string("model.") + name);
    std::string by = origin;
    try {
      trireme::set(loaded_.config, option, convert(option, {option.name, value, to_text(value), {}, ""}));
    } catch (const Error&) {  // of a model that no options describe
      by = fmt::format("{}: {}, which no option has", origin, to_text(value));
    }
    if (!by.empty() && !loaded_.origins.contains(option.name)) loaded_.origins[option.name] = {by, 0, kDefaultLayer};
  }
  template <HasNames E>
  void set(const char* name, E value, const std::string& origin) {
    set(name, std::string(name_of(value)), origin);
  }

 private:
  LoadedConfig& loaded_;
};

/// As written: 1e-12, not the nearest float with all digits.
double shortest(float value) { return std::stod(fmt::format("{}", value)); }

void settle_sizes(Settler& settler, const Spec& spec, const Chosen& chosen, const std::string& by) {
  settler.set("layers", spec.layers, by);
  settler.set("heads", spec.heads, by);
  settler.set("width", spec.width, by);
  const bool own = !by.empty() && !chosen.has("model.width");
  settler.set("inner-width", spec.inner_width, own ? by : "4 x model.width");
  settler.set("context", spec.context, by);
}

/// The fraction from which rotary_dims() gives the spec's own number.
double given_fraction(const Spec& spec) {
  double fraction = rotary_fraction_of(spec);
  while (rotary_dims(spec.head_dim(), fraction, true) < spec.rotary_dims) fraction = std::nextafter(fraction, 1.0);
  return fraction;
}

void settle_rotary_scaling(Settler& settler, const RotaryScaling& scaling, const std::string& by) {
  if (scaling.kind == RotaryKind::none) return;
  settler.set("rotary-scaling", scaling.kind, by);
  const std::map<std::string, Value> values{{"factor", shortest(scaling.factor)},
                                            {"attention-factor", shortest(scaling.attention_factor)},
                                            {"original-context", scaling.original_context},
                                            {"low", shortest(scaling.low)},
                                            {"high", shortest(scaling.high)},
                                            {"beta-fast", shortest(scaling.beta_fast)},
                                            {"beta-slow", shortest(scaling.beta_slow)},
                                            {"truncate", scaling.truncate}};
  for (const auto& [option, kinds] : scaling_options()) {
    const std::string name = option.substr(std::string("model.").size());
    if (std::ranges::find(kinds, scaling.kind) != kinds.end())
      settler.set(name.c_str(), values.at(name.substr(std::string("rotary-").size())), by);
  }
}

void settle_positions(Settler& settler, const Spec& spec, const Chosen& chosen, const std::string& by) {
  settler.set("position", spec.position, by);
  settler.set("position-offset", spec.position_offset, by);
  if (spec.position != Position::rotary) return;
  if (!chosen.has("model.rotary-fraction") && !by.empty()) settler.set("rotary-fraction", given_fraction(spec), by);
  settler.set("rotary-base", shortest(spec.rotary_base), by);
  settle_rotary_scaling(settler, spec.rotary, by);
}

void settle_choices(Settler& settler, const Spec& spec, const std::string& by) {
  settler.set("activation", spec.activation, by);
  settler.set("norm-place", spec.norm_place, by);
  settler.set("norm-epsilon", shortest(spec.norm_epsilon), by);
  settler.set("residual", spec.residual, by);
  settler.set("tied-head", spec.tied_head, by);
}

/// Each option has the value of the field, which may mean "derived": a resolved configuration gives the same spec.
void settle_decoder(Settler& settler, const Spec& spec, const std::string& by) {
  settler.set("key-heads", spec.key_heads, by);
  settler.set("head-size", spec.head_size, by);
  settler.set("norm", spec.norm, by);
  settler.set("norm-offset", static_cast<int64_t>(spec.norm_offset), by);
  settler.set("gated", spec.gated, by);
  settler.set("query-keys", spec.query_keys, by);
  settler.set("attention-scale", shortest(spec.attention_scale), by);
  settler.set("attention-cap", shortest(spec.attention_cap), by);
  settler.set("window", spec.window, by);
  settler.set("attention-layers", spec.attention_layers, by);
  settler.set("window-rotary-base", shortest(spec.window_rotary_base), by);
  settler.set("attention-gate", spec.attention_gate, by);
  settler.set("delta-key-heads", spec.delta_key_heads, by);
  settler.set("delta-value-heads", spec.delta_value_heads, by);
  settler.set("delta-key-size", spec.delta_key_size, by);
  settler.set("delta-value-size", spec.delta_value_size, by);
  settler.set("delta-taps", spec.delta_taps, by);
  settler.set("embedding-scale", shortest(spec.embedding_scale), by);
  settler.set("residual-scale", shortest(spec.residual_scale), by);
  settler.set("logits-scale", shortest(spec.logits_scale), by);
  settler.set("logits-cap", shortest(spec.logits_cap), by);
}

void settle_biases(Settler& settler, const Biases& biases, const Chosen& chosen, const std::string& by) {
  const std::string origin = chosen.has("model.bias") ? "model.bias" : by;
  const bool of_folder = !by.empty() && chosen.options.preset.empty();
  if (of_folder && !chosen.has("model.bias")) settler.set("bias", biases.mlp_in, by);
  settler.set("qkv-bias", biases.qkv, origin);
  settler.set("attention-out-bias", biases.attention_out, origin);
  settler.set("mlp-in-bias", biases.mlp_in, origin);
  settler.set("mlp-out-bias", biases.mlp_out, origin);
  settler.set("norm-bias", biases.norm, origin);
}

}  // namespace

void set_dropout(Spec& spec, const ModelOptions& options) {
  const auto or_all = [&](double own) { return static_cast<float>(own < 0 ? options.dropout : own); };
  spec.residual_dropout = static_cast<float>(options.dropout);
  spec.attention_dropout = or_all(options.attention_dropout);
  spec.embedding_dropout = or_all(options.embedding_dropout);
}

InitScheme init_scheme_of(const ModelOptions& options) {
  if (options.init_scheme) return *options.init_scheme;
  return options.preset.empty() ? InitScheme::gpt2 : preset(options.preset).init;
}

Spec with_given_options(Spec spec, const LoadedConfig& loaded) { return with_chosen(std::move(spec), Chosen(loaded)); }

Spec spec_from_options(const LoadedConfig& loaded, int64_t data_vocabulary) {
  const ModelOptions& m = loaded.config.model;
  Spec spec = new_model(Chosen(loaded));
  if (m.vocabulary == 0 && data_vocabulary > 0) spec.vocabulary = data_vocabulary;
  require(spec.vocabulary > 0, ErrorKind::config,
          "the size of the vocabulary is not known: the data has no sidecar and no tokenizer.json; set "
          "model.vocabulary or data.tokenizer");
  spec.vocabulary_rows = round_up(spec.vocabulary, m.vocabulary_multiple);
  spec.validate();
  return spec;
}

void settle_model_options(LoadedConfig& loaded, const Spec& spec, const std::string& by) {
  const ModelOptions m = loaded.config.model;
  const OptionOrigins origins = loaded.origins;
  const Chosen given(m, origins, loaded.config.names);
  Settler settler(loaded);
  settle_sizes(settler, spec, given, by);
  settle_positions(settler, spec, given, by);
  settle_choices(settler, spec, by);
  settle_biases(settler, spec.biases, given, by);
  settle_decoder(settler, spec, by);
  if (m.embedding_dropout < 0) settler.set("embedding-dropout", m.dropout, "model.dropout");
  if (m.attention_dropout < 0) settler.set("attention-dropout", m.dropout, "model.dropout");
}

void resolve_model_options(LoadedConfig& loaded) {
  const ModelOptions m = loaded.config.model;
  if (!m.init.empty() && m.init != "scratch") return;
  const std::string by = m.preset.empty() ? "" : "preset " + m.preset;
  settle_model_options(loaded, spec_from_options(loaded, 1), by);  // the data's vocabulary may not be known yet
  Settler settler(loaded);
  settler.set("init-scheme", init_scheme_of(m), by);
  if (m.vocabulary > 0) return;
  const std::string otherwise =
      m.preset.empty() ? "" : fmt::format(", or else that of {}, {}", by, preset(m.preset).spec.vocabulary);
  settler.set("vocabulary", int64_t{0}, "0: that of the data's tokenizer" + otherwise);
}

}  // namespace trireme
