#pragma once
// The frequencies of rotary positions, as values of a model: a pure function, in double, rounded to f32 as transformers
// has them.

#include <cstdint>
#include <vector>

#include "config/choices.h"

namespace trireme {

struct RotaryScaling {
  RotaryKind kind = RotaryKind::none;
  float factor = 1;                                          ///< of the context: at least 1
  float attention_factor = 1;                                ///< of cosines and sines, above 0
  int64_t original_context = 0;                              ///< O; dynamic, llama3, yarn, longrope
  float low = 1, high = 4;                                   ///< llama3: 0 < low < high
  float beta_fast = 32;                                      ///< yarn: turns within O from which on w stays
  float beta_slow = 1;                                       ///< yarn: turns below which it is w / factor
  bool truncate = true;                                      ///< yarn: the bounds between them are whole numbers
  std::vector<float> short_factors = {}, long_factors = {};  ///< longrope: dims / 2 each
  bool operator==(const RotaryScaling&) const = default;

  /// Calls f(name, field) for every field, by its name in a manifest.
  template <class S, class F>
  static void visit_fields(S& scaling, F& f) {
    f("rotary_kind", scaling.kind);
    f("rotary_factor", scaling.factor);
    f("rotary_attention_factor", scaling.attention_factor);
    f("rotary_original_context", scaling.original_context);
    f("rotary_low", scaling.low);
    f("rotary_high", scaling.high);
    f("rotary_beta_fast", scaling.beta_fast);
    f("rotary_beta_slow", scaling.beta_slow);
    f("rotary_truncate", scaling.truncate);
    f("rotary_short_factors", scaling.short_factors);
    f("rotary_long_factors", scaling.long_factors);
  }
  /// Throws Error::config naming the field and the valid values.
  void validate(int64_t dims) const;
};

/// Radians per position of each pair of values, dims / 2. longest: tokens of the longest sequence that is computed with
/// them, as in transformers: longrope and dynamic depend on it.
std::vector<float> rotary_frequencies(double base, int64_t dims, const RotaryScaling& scaling, int64_t longest);

/// Lengths for which this is equal have the same frequencies; 0 where these depend on no length.
int64_t rotary_length(const RotaryScaling& scaling, int64_t longest);

/// The factor of cosines and sines where a model's files name none: yarn's and longrope's depend on the factor of the
/// context.
double default_attention_factor(RotaryKind kind, double factor, int64_t original_context);

}  // namespace trireme
