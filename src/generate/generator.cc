#include "generate/generator.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/rng.h"

namespace trireme {
namespace {

TokenId largest(std::span<const float> logits) {
  return static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
}

/// Ids of the k largest logits and of all equal to the k-th, in id order.
void keep_top_k(std::span<const float> logits, int64_t k, std::vector<uint32_t>& order) {
  if (k <= 0 || k >= static_cast<int64_t>(order.size())) return;
  const auto by_logit = [&](uint32_t a, uint32_t b) { return logits[a] > logits[b]; };
  std::nth_element(order.begin(), order.begin() + (k - 1), order.end(), by_logit);
  const float threshold = logits[order[static_cast<size_t>(k - 1)]];
  std::ranges::sort(order);
  std::erase_if(order, [&](uint32_t id) { return logits[id] < threshold; });
}

/// Truncates a list sorted by descending probability after the first entry that reaches the total p.
void keep_top_p(const std::vector<double>& weights, double total, double p, std::vector<uint32_t>& order) {
  double sum = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    sum += weights[i];
    if (sum > p * total) {
      order.resize(i + 1);
      return;
    }
  }
}

}  // namespace

void SamplingOptions::validate() const {
  require(std::isfinite(temperature) && temperature >= 0, ErrorKind::usage,
          "--temperature is {}, expected a number above 0, or 0 for the most probable token", temperature);
  require(top_k >= 0, ErrorKind::usage, "--top-k is {}, expected at least 1, or 0 for all tokens", top_k);
  require(min_p >= 0 && min_p <= 1, ErrorKind::usage, "--min-p is {}, expected a number from 0 to 1", min_p);
  require(top_p > 0 && top_p <= 1, ErrorKind::usage, "--top-p is {}, expected a number above 0 and at most 1", top_p);
}

TokenId choose_token(std::span<const float> logits, const SamplingOptions& options, double uniform,
                     std::vector<uint32_t>& order) {
  if (options.greedy || options.temperature == 0) return largest(logits);
  order.resize(logits.size());
  std::iota(order.begin(), order.end(), 0u);
  keep_top_k(logits, options.top_k, order);

  const double max = logits[largest(logits)];
  const auto weight = [&](uint32_t id) {
    return std::exp((static_cast<double>(logits[id]) - max) / options.temperature);
  };
  if (options.top_p < 1) {
    std::ranges::stable_sort(order, std::greater<>(), [&](uint32_t id) { return logits[id]; });
    std::vector<double> weights(order.size());
    std::ranges::transform(order, weights.begin(), weight);
    keep_top_p(weights, std::accumulate(weights.begin(), weights.end(), 0.0), options.top_p, order);
  }
  if (options.min_p > 0)  // the largest has the weight 1
    std::erase_if(order, [&](uint32_t id) { return weight(id) < options.min_p; });
  double total = 0;
  for (const uint32_t id : order) total += weight(id);
  double left = uniform * total;
  uint32_t last = order.front();
  for (const uint32_t id : order) {
    const double own = weight(id);
    left -= own;
    if (left < 0) return id;
    if (own > 0) last = id;
  }
  return last;  // because of rounding
}

namespace {

size_t memory_bytes(const Spec& spec, const Layout& held, DType dtype) {
  require(spec.mask == Mask::causal && spec.head == HeadKind::language_model, ErrorKind::config,
          "this model does not predict the next token (it is an encoder or a classifier), so it cannot write text");
  Arena measure;
  (void)take_cache(spec, held, dtype, measure);
  (void)measure.take(DType::f32, {1, spec.vocabulary_rows});
  return measure.peak();
}

void penalize(std::span<float> logits, const std::vector<uint8_t>& in_text, double penalty) {
  const auto factor = static_cast<float>(penalty);
  for (size_t id = 0; id < logits.size(); ++id) {
    if (in_text[id]) logits[id] = logits[id] > 0 ? logits[id] / factor : logits[id] * factor;
  }
}

/// Throws Error::data if no id is left to draw.
void require_some_left(const std::vector<TokenId>& never, int64_t vocabulary) {
  std::vector<TokenId> ids = never;
  std::ranges::sort(ids);
  const auto from = std::unique(ids.begin(), ids.end());
  const int64_t known = std::ranges::count_if(ids.begin(), from, [&](TokenId id) { return id < vocabulary; });
  require(known < vocabulary, ErrorKind::data,
          "none of the model's {} ids may be drawn: its tokenizer has no token for them, or the settings suppress all "
          "of them",
          vocabulary);
}

}  // namespace

Generator::Generator(const Spec& spec, const ParameterViews& views, DType dtype, Ops& ops, int threads, Mesh* mesh,
                     WeightSource* weights)
    : spec_(spec),
      stage_(spec, views, dtype, {.rows = spec.context, .training = false, .head_rows = 1}, ops, threads, mesh,
             weights),
      memory_(memory_bytes(spec, views.table->layout(), dtype), ops.device()),
      tokens_(static_cast<size_t>(spec.context)),
      positions_(static_cast<size_t>(spec.context)),
      offsets_(2),
      read_logits_(static_cast<size_t>(spec.vocabulary_rows)) {
  const Layout& held = views.table->layout();
  layers_ = take_cache(spec, held, dtype, memory_);
  cache_.layers = layers_;
  cache_.first_layer = held.part.first_layer;
  logits_ = memory_.take(DType::f32, {1, spec.vocabulary_rows});
  cache_.past = ConstView(&past_, DType::i32, {1});
}

std::span<float> Generator::next_logits(std::span<const TokenId> tokens, int64_t past) {
  const auto rows = static_cast<int64_t>(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens_[i] = static_cast<int32_t>(tokens[i]);
    positions_[i] = static_cast<int32_t>(past) + static_cast<int32_t>(i);
  }
  past_ = static_cast<int32_t>(past);
  offsets_[1] = static_cast<int32_t>(rows);
  Batch batch;
  batch.tokens = View(std::span(tokens_).first(tokens.size()), {rows});
  batch.positions = View(std::span(positions_).first(tokens.size()), {rows});
  batch.offsets = View(std::span(offsets_), {2});
  stage_.decode(batch, cache_, logits_);
  stage_.context().stream->copy(logits_, View(std::span(read_logits_), logits_.shape()));
  return std::span<float>(read_logits_).first(static_cast<size_t>(spec_.vocabulary));
}

void Generator::run(std::span<const TokenId> prompt, const GenerateOptions& options, uint64_t sample,
                    const std::function<bool(TokenId)>& on_token) {
  options.sampling.validate();
  require(!prompt.empty(), ErrorKind::usage, "the prompt is empty; give at least one character");
  for (const TokenId id : prompt) {
    require(id < static_cast<uint64_t>(spec_.vocabulary), ErrorKind::data,
            "the prompt has token {}, but the model's vocabulary ends at {}: the prompt's tokenizer is not the model's",
            id, spec_.vocabulary - 1);
  }
  require(std::isfinite(options.repetition_penalty) && options.repetition_penalty > 0, ErrorKind::usage,
          "--repetition-penalty is {}, expected a number above 0", options.repetition_penalty);
  require_some_left(options.never, spec_.vocabulary);
  const bool penalizes = options.repetition_penalty != 1;
  in_text_.assign(penalizes ? static_cast<size_t>(spec_.vocabulary) : 0, 0);
  if (penalizes) {
    for (const TokenId id : prompt) in_text_[id] = 1;
  }
  const uint64_t key = mix_key(options.seed, sample);
  std::vector<TokenId> window(prompt.begin(), prompt.end());
  const auto context = static_cast<size_t>(spec_.context);
  int64_t past = 0;
  for (int64_t i = 0; i < options.max_new_tokens; ++i) {
    if (window.size() > context) {  // positions shift, so the cache is invalid
      window.erase(window.begin(), window.end() - static_cast<std::ptrdiff_t>(context));
      past = 0;
    }
    // Cached keys have turned by the frequencies of a shorter text.
    if (rotary_length(spec_.rotary, past) != rotary_length(spec_.rotary, std::ssize(window))) past = 0;
    const std::span<float> logits = next_logits(std::span(window).subspan(static_cast<size_t>(past)), past);
    past = static_cast<int64_t>(window.size());
    if (penalizes) penalize(logits, in_text_, options.repetition_penalty);
    for (const TokenId never : options.never) {
      if (never < logits.size()) logits[never] = -std::numeric_limits<float>::infinity();
    }
    const TokenId id =
        choose_token(logits, options.sampling, RandomStream(key, static_cast<uint64_t>(i)).uniform(), order_);
    if (options.stop_at.contains(id)) return;
    if (penalizes) in_text_[id] = 1;
    window.push_back(id);
    if (!on_token(id)) return;
  }
}

}  // namespace trireme
