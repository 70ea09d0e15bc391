#include "model/spec.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "base/numbers.h"
#include "model/adapters.h"

namespace trireme {
namespace {

void require_positive(int64_t value, const char* field) {
  require(value > 0, ErrorKind::config, "model: {} is {}; it must be at least 1", field, value);
}

// The limits of the options of config/config.h, widened for values in files. No product of two of them times the number
// of layers overflows, and a table of so many layers is made in a second.
constexpr int64_t kMostLayers = 1000, kMostHeads = 1024, kMostWidth = 65536, kMostInnerWidth = 4 * kMostWidth,
                  kMostContext = 1 << 20, kMostVocabulary = 1 << 22, kMostPaddingRows = 1 << 16, kMostClasses = 1 << 20;

void require_sizes(const Spec& spec) {
  const struct {
    int64_t value, least, most;
    const char* field;
  } sizes[] = {
      {spec.vocabulary, 1, kMostVocabulary, "vocabulary"},
      {spec.vocabulary_rows, 1, kMostVocabulary + kMostPaddingRows, "rows of the token matrix"},
      {spec.context, 1, kMostContext, "context"},
      {spec.layers, 1, kMostLayers, "layers"},
      {spec.heads, 1, kMostHeads, "heads"},
      {spec.width, 1, kMostWidth, "width"},
      {spec.inner_width, 1, kMostInnerWidth, "inner width"},
      {spec.position_offset, 0, kMostContext, "position offset"},
      {spec.embedding_width, 0, kMostWidth, "embedding width"},
      {spec.token_types, 0, kMostClasses, "token types"},
      {spec.classes, 0, kMostClasses, "classes"},
      {spec.key_heads, 0, kMostHeads, "heads of keys"},
      {spec.head_size, 0, kMostWidth, "head size"},
      {spec.window, 0, kMostContext, "window"},
      {spec.delta_key_heads, 0, kMostHeads, "key heads of layers with a state"},
      {spec.delta_value_heads, 0, kMostHeads, "value heads of layers with a state"},
      {spec.delta_key_size, 0, kMostWidth, "key size of layers with a state"},
      {spec.delta_value_size, 0, kMostWidth, "value size of layers with a state"},
      {spec.delta_taps, 0, kMostTaps, "taps of layers with a state"},
  };
  for (const auto& size : sizes) {
    if (size.least == 1) require_positive(size.value, size.field);
    require(size.value >= size.least && size.value <= size.most, ErrorKind::config,
            "model: {} is {}, expected {} to {}", size.field, size.value, size.least, size.most);
  }
}

void require_rate(float rate, const char* field) {
  require(rate >= 0 && rate < 1, ErrorKind::config, "model: {} is {}, a dropout rate is at least 0 and below 1", field,
          rate);
}

void require_at_least_0(float value, const char* field) {
  require(value >= 0 && std::isfinite(value), ErrorKind::config, "model: {} is {}; it must be at least 0; 0 is {}",
          field, value, std::string_view(field).ends_with("cap") ? "none" : "the usual one");
}

void require_above_0(float value, const char* field) {
  require(value > 0 && std::isfinite(value), ErrorKind::config, "model: {} is {}; it must be above 0", field, value);
}

void validate_heads(const Spec& spec) {
  require(spec.head_size > 0 || spec.width % spec.heads == 0, ErrorKind::config,
          "model: {} heads do not divide width {}; heads that do: {}", spec.heads, spec.width,
          fmt::join(divisors(spec.width), ", "));
  require(spec.heads % spec.kv_heads() == 0, ErrorKind::config, "model: {} heads of keys do not divide {} heads; {} do",
          spec.kv_heads(), spec.heads, near_divisors(spec.heads, spec.kv_heads()));
  require(spec.attention_width() <= kMostInnerWidth, ErrorKind::config,
          "model: {} heads of {} values are {}, expected at most {}", spec.heads, spec.head_dim(),
          spec.attention_width(), kMostInnerWidth);
  require_at_least_0(spec.attention_scale, "attention scale");
  require_at_least_0(spec.attention_cap, "attention cap");
}

void validate_layers(const Spec& spec) {
  const std::string& layers = spec.attention_layers;
  require(layers.empty() || std::ssize(layers) == spec.layers, ErrorKind::config,
          "model: attention layers are \"{}\", expected {} letters, one per layer", layers, spec.layers);
  require(layers.find_first_not_of("FWfwD") == layers.npos, ErrorKind::config,
          "model: attention layers are \"{}\", expected letters F, W, f, w and D", layers);
  const bool windows = layers.find_first_of("Ww") != layers.npos;
  require(windows == (spec.window > 0), ErrorKind::config,
          "model: a window of {} keys, and {} layer with a window; both or neither are needed", spec.window,
          windows ? "at least one" : "no");
  require(!windows || spec.mask == Mask::causal, ErrorKind::config, "model: only a causal mask can have windows");
  require(layers.find_first_of("fw") == layers.npos || spec.position == Position::rotary, ErrorKind::config,
          "model: attention layers are \"{}\", but positions are not rotary", layers);
  require(spec.window_rotary_base == 0 || (windows && spec.window_rotary_base > 1), ErrorKind::config,
          "model: rotary base of windowed layers is {}; it must be above 1, and there must be such layers",
          spec.window_rotary_base);
}

void validate_states(const Spec& spec) {
  const bool states = spec.attention_layers.find('D') != std::string::npos;
  const int64_t sizes[] = {spec.delta_key_heads, spec.delta_value_heads, spec.delta_key_size, spec.delta_value_size,
                           spec.delta_taps};
  require(std::ranges::all_of(sizes, [&](int64_t size) { return (size > 0) == states; }), ErrorKind::config,
          "model: {} layer with a state (D), but delta key heads, value heads, key size, value size and taps are {}; "
          "all are 0 without such a layer and above 0 with one",
          states ? "at least one" : "no", fmt::join(sizes, ", "));
  if (!states) return;
  require(spec.delta_value_heads % spec.delta_key_heads == 0, ErrorKind::config,
          "model: {} key heads of layers with a state do not divide their {} value heads; {} do", spec.delta_key_heads,
          spec.delta_value_heads, near_divisors(spec.delta_value_heads, spec.delta_key_heads));
  require(spec.delta_width() <= 2 * kMostInnerWidth, ErrorKind::config,
          "model: layers with a state have {} values per token, expected at most {}", spec.delta_width(),
          2 * kMostInnerWidth);
  require(spec.mask == Mask::causal, ErrorKind::config, "model: only a causal mask can have layers with a state");
}

void validate_norms(const Spec& spec) {
  require(spec.norm_epsilon > 0, ErrorKind::config, "model: norm epsilon is {}; it must be above 0", spec.norm_epsilon);
  require(spec.norm_place == NormPlace::pre || spec.residual == Residual::sequential, ErrorKind::config,
          "model: norms after a parallel residual are not defined; use pre-norm or a sequential residual");
  require(spec.norm_offset == 0 || (spec.norm_offset == 1 && spec.norm == NormKind::rms), ErrorKind::config,
          "model: norm offset is {}; it must be 0, or for rms norms 0 or 1", spec.norm_offset);
  require(spec.norm == NormKind::layer || !spec.biases.norm, ErrorKind::config, "model: rms norms have no bias");
}

void validate_scales(const Spec& spec) {
  require_above_0(spec.embedding_scale, "embedding scale");
  require_above_0(spec.residual_scale, "residual scale");
  require_above_0(spec.logits_scale, "logits scale");
  require_at_least_0(spec.logits_cap, "logits cap");
  require(spec.has_decoder() || (spec.logits_scale == 1 && spec.logits_cap == 0), ErrorKind::config,
          "model: a classifier's logits have neither scale nor cap");
}

void validate_positions(const Spec& spec) {
  if (spec.position == Position::learned) {
    require(spec.rotary_dims == 0, ErrorKind::config, "model: {} rotary dims, but positions are learned",
            spec.rotary_dims);
    require(spec.rotary == RotaryScaling(), ErrorKind::config,
            "model: rotary positions of kind {}, but positions are learned", name_of(spec.rotary.kind));
    return;
  }
  require(spec.position_offset == 0, ErrorKind::config, "model: position offset is {}, but positions are rotary",
          spec.position_offset);
  require(spec.rotary_dims >= 2 && spec.rotary_dims % 2 == 0 && spec.rotary_dims <= spec.head_dim(), ErrorKind::config,
          "model: rotary dims is {}; it must be even, at least 2 and at most the head size, {}", spec.rotary_dims,
          spec.head_dim());
  require(spec.rotary_base > 1, ErrorKind::config, "model: rotary base is {}; it must be above 1", spec.rotary_base);
  spec.rotary.validate(spec.rotary_dims);
}

void validate_head(const Spec& spec) {
  if (spec.head == HeadKind::language_model) return;
  require(!spec.final_norm && !spec.projected(), ErrorKind::config,
          "model: only a language-model head can follow a final norm or projected embeddings");
  if (spec.head != HeadKind::classifier) return;
  require_positive(spec.classes, "classes");
  require(!spec.tied_head, ErrorKind::config, "model: a classifier's head cannot be tied to the token embedding");
}

}  // namespace

float Spec::score_scale() const {
  return attention_scale > 0 ? attention_scale : 1.0f / std::sqrt(static_cast<float>(head_dim()));
}

bool Spec::has_dropout() const {
  return std::max({embedding_dropout, attention_dropout, residual_dropout, head_dropout, adapter_dropout}) > 0;
}

void Spec::validate() const {
  require_sizes(*this);
  require(vocabulary_rows >= vocabulary, ErrorKind::config,
          "model: {} rows of the token matrix cannot hold a vocabulary of {}", vocabulary_rows, vocabulary);
  validate_heads(*this);
  require_rate(embedding_dropout, "embedding dropout");
  require_rate(attention_dropout, "attention dropout");
  require_rate(residual_dropout, "residual dropout");
  require_rate(head_dropout, "head dropout");
  validate_norms(*this);
  validate_layers(*this);
  validate_states(*this);
  validate_scales(*this);
  validate_positions(*this);
  validate_head(*this);
  require_rate(adapter_dropout, "adapter dropout");
  (void)adapters_of(*this);
}

bool Spec::is_plain() const {
  const Spec plain;
  return kv_heads() == heads && attention_width() == width && norm == plain.norm && norm_offset == plain.norm_offset &&
         !gated && query_keys == plain.query_keys && attention_scale == plain.attention_scale &&
         attention_cap == plain.attention_cap && attention_layers.empty() && !attention_gate &&
         rotary == plain.rotary && embedding_scale == plain.embedding_scale && residual_scale == plain.residual_scale &&
         logits_scale == plain.logits_scale && logits_cap == plain.logits_cap;
}

bool Spec::has_window(int64_t layer) const {
  if (attention_layers.empty()) return false;
  const char letter = attention_layers[static_cast<size_t>(layer)];
  return letter == 'W' || letter == 'w';
}

bool Spec::has_state(int64_t layer) const {
  return !attention_layers.empty() && attention_layers[static_cast<size_t>(layer)] == 'D';
}

bool Spec::turns(int64_t layer) const {
  if (position != Position::rotary) return false;
  if (attention_layers.empty()) return true;
  const char letter = attention_layers[static_cast<size_t>(layer)];
  return letter == 'F' || letter == 'W';
}

double block_products(const Spec& spec, int64_t layer) {
  const auto width = static_cast<double>(spec.width);
  const double mlp = width * static_cast<double>(spec.mlp_in_width() + spec.inner_width);
  if (!spec.has_state(layer)) return mlp + width * static_cast<double>(spec.qkv_width() + spec.attention_width());
  return mlp + width * static_cast<double>(spec.delta_width() + spec.delta_value_width()) +
         static_cast<double>(spec.delta_mixed_width() * spec.delta_taps);
}

double state_products(const Spec& spec, int64_t layer) {
  return spec.has_state(layer) ? 3 * static_cast<double>(spec.delta_value_width() * spec.delta_key_size) : 0;
}

double visible_keys(const Spec& spec, int64_t layer, int64_t sequence) {
  const auto rows = static_cast<double>(sequence), window = static_cast<double>(spec.window);
  if (spec.has_state(layer)) return 0;
  if (spec.mask == Mask::full) return rows;
  return spec.has_window(layer) && window < rows ? window - window * window / (2 * rows) : rows / 2;
}

double train_flops_per_token(const Spec& spec, int64_t sequence) {
  const auto width = static_cast<double>(spec.width);
  double matmul = 0;
  for (int64_t layer = 0; layer < spec.layers; ++layer)
    matmul += block_products(spec, layer) + state_products(spec, layer);
  if (spec.has_decoder()) matmul += static_cast<double>(spec.vocabulary * spec.token_width());
  if (spec.projected()) matmul += 2 * width * static_cast<double>(spec.token_width());
  if (spec.head == HeadKind::masked_language_model) matmul += width * width;
  double keys = 0;
  for (int64_t layer = 0; layer < spec.layers; ++layer) keys += visible_keys(spec, layer, sequence);
  return 6 * matmul + 12 * static_cast<double>(spec.attention_width()) * keys;
}

}  // namespace trireme
