#pragma once
// Which token comes next, given logits: a pure function of logits, options and one random number.

#include <cstdint>
#include <span>
#include <vector>

#include "text/tokenizer.h"

namespace trireme {

struct SamplingOptions {
  bool greedy = false;       ///< the largest logit, the lowest id among equals
  double temperature = 1.0;  ///< logits are divided by it; 0: greedy
  int64_t top_k = 0;         ///< keep the k largest, ties with the k-th kept; 0: all
  double top_p = 1.0;  ///< then keep the most probable ones up to this total, the one that passes it included; 1: all
  /// Throws Error::usage naming the option and its range.
  void validate() const;
};

/// Chooses among logits [vocabulary] with `uniform` in [0, 1); one of minus infinity is never chosen, and at least one
/// is not. `order` is working memory, kept by the caller.
TokenId choose_token(std::span<const float> logits, const SamplingOptions& options, double uniform,
                     std::vector<uint32_t>& order);

}  // namespace trireme
