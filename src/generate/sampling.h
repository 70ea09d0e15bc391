#pragma once
// Chooses the next token: a pure function of logits, options and one random number.

#include <cstdint>
#include <span>
#include <vector>

#include "text/tokenizer.h"

namespace trireme {

struct SamplingOptions {
  bool greedy = false;       ///< the largest logit; among equals the lowest id
  double temperature = 1.0;  ///< logits are divided by it; 0: greedy
  int64_t top_k = 0;         ///< keep the k largest, ties with the k-th kept; 0: all
  double top_p = 1.0;  ///< then keep the most probable ones up to this total, including the one that reaches it; 1: all
  /// Throws Error::usage naming the option and its range.
  void validate() const;
};

/// Chooses among logits [vocabulary] with `uniform` in [0, 1). Never chooses minus infinity; at least one logit must be
/// larger. `order` is the caller's working memory.
TokenId choose_token(std::span<const float> logits, const SamplingOptions& options, double uniform,
                     std::vector<uint32_t>& order);

}  // namespace trireme
