#pragma once
// A loss of complete sequences, as preferences have: a function of the sequences' log-probabilities instead of a sum
// over tokens.

#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

/// Of the sequences of one micro-batch, on the host; used by the ranks that have the head.
class SequenceLoss {
 public:
  virtual ~SequenceLoss() = default;
  /// How many samples the loss is a sum over; a sample may be several sequences.
  virtual double samples() const = 0;
  /// The sum of the samples' losses. cross_entropies: [sequences] of each the sum of its counted tokens' cross-entropy
  /// in nats, its log-probability with the other sign. derivatives: [sequences] of the result by each of them; empty:
  /// not wanted. Called once per trip through the model.
  virtual double value(std::span<const double> cross_entropies, std::span<double> derivatives) const = 0;

  std::vector<int32_t> offsets;          ///< [sequences + 1] as Batch::offsets
  std::vector<int32_t> counted_offsets;  ///< [sequences + 1] first of each sequence in Batch::counted, and their number
  size_t sequences() const { return offsets.size() - 1; }
};

}  // namespace trireme
