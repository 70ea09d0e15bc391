#include "generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/error.h"

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

}  // namespace trireme
