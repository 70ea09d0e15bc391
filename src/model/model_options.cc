#include "model/model_options.h"

#include <fmt/format.h>

#include "base/error.h"
#include "config/schema.h"
#include "model/presets.h"

namespace trireme {
namespace {

bool is_set(const LoadedConfig& loaded, const char* option) { return loaded.origins.contains(option); }

int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

void set_sizes(Spec& spec, const LoadedConfig& loaded) {
  const ModelOptions& m = loaded.config.model;
  if (is_set(loaded, "model.layers")) spec.layers = m.layers;
  if (is_set(loaded, "model.heads")) spec.heads = m.heads;
  if (is_set(loaded, "model.width")) {
    spec.width = m.width;
    spec.inner_width = 4 * m.width;
  }
  if (is_set(loaded, "model.inner-width") && m.inner_width > 0) spec.inner_width = m.inner_width;
  if (is_set(loaded, "model.context")) spec.context = m.context;
  require(spec.head_size > 0 || spec.width % spec.heads == 0, ErrorKind::config,
          "{} is {} and does not divide {}, which is {}; give both", loaded.where("model.heads"), spec.heads,
          loaded.where("model.width"), spec.width);
}

/// The values of a head that turn, rounded down as NeoX does; of a resized preset the same share, whatever rounding its
/// quotient suffered.
int64_t rotary_dims(int64_t head_dim, double fraction, bool given) {
  constexpr double kQuotientError = 1e-9;
  return static_cast<int64_t>(static_cast<double>(head_dim) * fraction + (given ? 0 : kQuotientError));
}

void set_positions(Spec& spec, const LoadedConfig& loaded, double rotary_fraction) {
  const ModelOptions& m = loaded.config.model;
  if (is_set(loaded, "model.position")) {
    spec.position = m.position;
    if (m.position == Position::rotary) spec.position_offset = 0;
  }
  if (is_set(loaded, "model.position-offset")) spec.position_offset = m.position_offset;
  if (is_set(loaded, "model.rotary-fraction")) rotary_fraction = m.rotary_fraction;
  if (is_set(loaded, "model.rotary-base")) spec.rotary_base = static_cast<float>(m.rotary_base);
  if (spec.position == Position::rotary) {
    spec.rotary_dims = rotary_dims(spec.head_dim(), rotary_fraction, is_set(loaded, "model.rotary-fraction"));
    return;
  }
  spec.rotary_dims = 0;
  for (const char* option : {"model.rotary-fraction", "model.rotary-base"})
    require(!loaded.given(option), ErrorKind::config,
            "{} is given, but positions are learned; remove it or set --model.position rotary", loaded.where(option));
}

void set_biases(Biases& biases, const LoadedConfig& loaded) {
  const ModelOptions& m = loaded.config.model;
  if (is_set(loaded, "model.bias"))
    biases = {.qkv = m.bias, .attention_out = m.bias, .mlp_in = m.bias, .mlp_out = m.bias, .norm = m.bias};
  if (is_set(loaded, "model.qkv-bias")) biases.qkv = m.qkv_bias;
  if (is_set(loaded, "model.attention-out-bias")) biases.attention_out = m.attention_out_bias;
  if (is_set(loaded, "model.mlp-in-bias")) biases.mlp_in = m.mlp_in_bias;
  if (is_set(loaded, "model.mlp-out-bias")) biases.mlp_out = m.mlp_out_bias;
  if (is_set(loaded, "model.norm-bias")) biases.norm = m.norm_bias;
}

void set_choices(Spec& spec, const LoadedConfig& loaded) {
  const ModelOptions& m = loaded.config.model;
  if (is_set(loaded, "model.activation")) spec.activation = m.activation;
  if (spec.head == HeadKind::masked_language_model) spec.head_activation = spec.activation;
  if (is_set(loaded, "model.norm-place")) {
    spec.norm_place = m.norm_place;
    spec.final_norm = m.norm_place != NormPlace::post && spec.head == HeadKind::language_model;
  }
  if (is_set(loaded, "model.residual")) spec.residual = m.residual;
  if (is_set(loaded, "model.norm-epsilon")) spec.norm_epsilon = static_cast<float>(m.norm_epsilon);
  if (is_set(loaded, "model.tied-head")) spec.tied_head = m.tied_head;
  set_biases(spec.biases, loaded);
}

double rotary_fraction_of(const Spec& spec) {
  return spec.position == Position::rotary
             ? static_cast<double>(spec.rotary_dims) / static_cast<double>(spec.head_dim())
             : 1.0;
}

/// A new model except its vocabulary, which may depend on the data.
Spec new_model(const LoadedConfig& loaded) {
  const ModelOptions& m = loaded.config.model;
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
  spec = with_given_options(spec, loaded);
  require(
      spec.residual != Residual::parallel || spec.biases.mlp_out, ErrorKind::config,
      "{} is parallel and the MLP has no bias ({}): GPT-NeoX drops the attention's output from such a model, so that "
      "none means what it says; set --model.mlp-out-bias true or --model.residual sequential",
      loaded.where("model.residual"),
      loaded.where(is_set(loaded, "model.mlp-out-bias") ? "model.mlp-out-bias" : "model.bias"));
  if (m.vocabulary > 0) spec.vocabulary = m.vocabulary;
  return spec;
}

/// Sets the options of the group model to their resolved values; those not given get an origin.
class Settler {
 public:
  explicit Settler(LoadedConfig& loaded) : loaded_(loaded) {}

  void set(const char* name, const Value& value, const std::string& origin) {
    const std::string option = std::string("model.") + name;
    trireme::set(loaded_.config, *schema().find(option), value);
    if (!origin.empty() && !loaded_.origins.contains(option)) loaded_.origins[option] = {origin, 0, kDefaultLayer};
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

void settle_sizes(Settler& settler, const Spec& spec, const LoadedConfig& loaded, const std::string& by) {
  settler.set("layers", spec.layers, by);
  settler.set("heads", spec.heads, by);
  settler.set("width", spec.width, by);
  const bool own = !by.empty() && !is_set(loaded, "model.width");
  settler.set("inner-width", spec.inner_width, own ? by : "4 x model.width");
  settler.set("context", spec.context, by);
  const ModelOptions& m = loaded.config.model;
  if (m.vocabulary > 0) return;
  const std::string otherwise =
      m.preset.empty() ? "" : fmt::format(", or else that of {}, {}", by, preset(m.preset).spec.vocabulary);
  settler.set("vocabulary", int64_t{0}, "0: that of the data's tokenizer" + otherwise);
}

void settle_positions(Settler& settler, const Spec& spec, const LoadedConfig& loaded, const std::string& by) {
  settler.set("position", spec.position, by);
  settler.set("position-offset", spec.position_offset, by);
  if (spec.position != Position::rotary) return;
  if (!is_set(loaded, "model.rotary-fraction") && !by.empty())
    settler.set("rotary-fraction", rotary_fraction_of(preset(loaded.config.model.preset).spec), by);
  settler.set("rotary-base", shortest(spec.rotary_base), by);
}

void settle_choices(Settler& settler, const Spec& spec, const std::string& by) {
  settler.set("activation", spec.activation, by);
  settler.set("norm-place", spec.norm_place, by);
  settler.set("norm-epsilon", shortest(spec.norm_epsilon), by);
  settler.set("residual", spec.residual, by);
  settler.set("tied-head", spec.tied_head, by);
}

void settle_biases(Settler& settler, const Biases& biases, const LoadedConfig& loaded, const std::string& by) {
  const std::string origin = is_set(loaded, "model.bias") ? "model.bias" : by;
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

Spec with_given_options(Spec spec, const LoadedConfig& loaded) {
  const double rotary_fraction = rotary_fraction_of(spec);
  set_sizes(spec, loaded);
  set_positions(spec, loaded, rotary_fraction);
  set_choices(spec, loaded);
  set_dropout(spec, loaded.config.model);
  return spec;
}

Spec spec_from_options(const LoadedConfig& loaded, int64_t data_vocabulary) {
  const ModelOptions& m = loaded.config.model;
  Spec spec = new_model(loaded);
  if (m.vocabulary == 0 && data_vocabulary > 0) spec.vocabulary = data_vocabulary;
  require(spec.vocabulary > 0, ErrorKind::config,
          "the size of the vocabulary is not known: the data has no sidecar and no tokenizer.json; set "
          "model.vocabulary or data.tokenizer");
  spec.vocabulary_rows = round_up(spec.vocabulary, m.vocabulary_multiple);
  spec.validate();
  return spec;
}

void resolve_model_options(LoadedConfig& loaded) {
  const ModelOptions m = loaded.config.model;
  if (!m.init.empty() && m.init != "scratch") return;
  const Spec spec = spec_from_options(loaded, 1);  // the data's vocabulary may not be known yet
  const LoadedConfig given = loaded;
  const std::string by = m.preset.empty() ? "" : "preset " + m.preset;
  Settler settler(loaded);
  settle_sizes(settler, spec, given, by);
  settle_positions(settler, spec, given, by);
  settle_choices(settler, spec, by);
  settle_biases(settler, spec.biases, given, by);
  settler.set("init-scheme", init_scheme_of(m), by);
  if (m.embedding_dropout < 0) settler.set("embedding-dropout", m.dropout, "model.dropout");
  if (m.attention_dropout < 0) settler.set("attention-dropout", m.dropout, "model.dropout");
}

}  // namespace trireme
