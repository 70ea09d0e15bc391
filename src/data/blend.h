#pragma once
// Chooses the data set of each sample so that their shares follow the weights: sample i is from the set with the
// largest weight * max(i, 1) - (samples taken from it so far), the first of equals; the rule of Megatron and NeoX.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme {

class Blend {
 public:
  /// Weights, at least one above 0; they are normalised. `samples`: the range of at(). Throws Error::usage.
  Blend(std::vector<double> weights, uint64_t samples);

  struct Choice {
    size_t set;
    uint64_t sample;  ///< number among the samples of that set
  };
  /// index < samples. Walks from the nearest state kept, at most 1024 samples back.
  Choice at(uint64_t index) const;

  /// Samples that a set must have so that `samples` can be drawn: ceil(samples * weight * 1.005), as NeoX builds it.
  uint64_t needed(size_t set) const;

 private:
  size_t choose(uint64_t index, const uint64_t* taken) const;

  std::vector<double> weights_;
  uint64_t samples_;
  std::vector<uint64_t> kept_;  // taken samples of each set before sample k * 1024
};

}  // namespace trireme
