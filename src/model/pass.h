#pragma once
// The context of layers: the operators, the micro-batch and the numbers that make dropout replayable.

#include <cstdint>
#include <span>
#include <vector>

#include "model/tensor_group.h"
#include "ops/ops.h"

namespace trireme {

// A loss of complete sequences, as preferences have: a function of the sequences' log-probabilities instead of a sum
// over tokens.

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

/// Packed rows of one micro-batch. All views are of the operators' device.
struct Batch {
  ConstView tokens;     ///< [rows] i32
  ConstView positions;  ///< [rows] i32, position in its sequence
  ConstView types;      ///< [rows] i32, token types, where the model has them
  ConstView targets;    ///< [rows] i32, the token to predict; classifier: [sequences] i32, the class; -1: not counted
  ConstView values;     ///< [sequences] S, targets of a classifier with one class
  ConstView offsets;    ///< [sequences + 1] i32, first row of each sequence
  ConstView samples;    ///< [rows] i64, global sample index of each row
  /// [sequences] i64 and i32: samples and positions of each sequence's first row, for a classifier's dropout.
  ConstView first_samples, first_positions;
  /// [n] i32: the rows whose targets count, ascending, and those targets: of a decoder only they need logits. Empty:
  /// all rows have some.
  ConstView counted, counted_targets;
  /// Tokens of the longest sequence of all that are computed together, on all ranks: rotary frequencies may depend on
  /// it. 0: of this batch's.
  int64_t longest = 0;
  int64_t equal_length = 0;  ///< the rows of every sequence; 0: they differ, or were not counted
  double smoothing = 0;      ///< classifier: the share of each target that is spread over all classes
  /// Decoder: the loss, on the host, instead of the sum of the cross-entropies; needs ModelShape::scored_sequences.
  const SequenceLoss* sequence_loss = nullptr;
  int64_t rows() const { return tokens.rows(); }
  int64_t sequences() const { return offsets.rows() - 1; }
};

/// One trip through the model.
struct Pass {
  Ops& ops;
  Context& context;
  const Batch& batch;
  uint64_t seed = 0, step = 0;     ///< with layer and site they key the dropout masks
  bool dropout = false;            ///< training
  Write write = Write::overwrite;  ///< of weight gradients: the first micro-batch overwrites
  View loss = {};                  ///< [1] f64: the head adds its loss to it
  TensorGroup* tensor = nullptr;   ///< the ranks that share each layer; nullptr: this one has all of it

  // Between layers there are rows of all ranks, or, where tensor ranks share them, this one's own.
  bool sequence_parallel() const { return tensor && tensor->sequence_parallel(); }
  RowShare share() const { return tensor ? tensor->share_of(batch.rows()) : RowShare{0, batch.rows()}; }
  /// This rank's of something that there is for every row.
  ConstView own(ConstView all) const { return all.rows_slice(share().first, share().count); }
  /// Every rank's rows of something that there is between layers; valid until the next call.
  ConstView all_rows(ConstView own_rows) const {
    if (!sequence_parallel()) return own_rows;
    const View all = tensor->gathered(batch.rows(), own_rows.shape()[1]);
    tensor->gather(context, own_rows, all);
    return all;
  }
  /// Where this rank writes its contribution (all rows) to `sum`, of which it holds its own rows.
  View contribution_to(View sum) const {
    return sequence_parallel() ? tensor->contribution(batch.rows(), sum.shape()[1]) : sum;
  }
  /// sum = the sum of contribution_to(sum) over the tensor ranks; neither may be used until tensor->finish().
  void start_sum(View sum) const {
    sequence_parallel() ? tensor->start_scatter_sum(context, contribution_to(sum), sum)
                        : tensor->start_sum(context, sum);
  }
  void sum(View sum) const {
    start_sum(sum);
    tensor->finish();
  }

  /// Of all rows.
  Dropout dropout_at(float rate, uint32_t layer, uint32_t site) const {
    if (!dropout || rate == 0) return {};
    return {rate, dropout_key(seed, step, layer, site), batch.samples, batch.positions};
  }
  /// The same of the rows that there are between layers.
  Dropout own_dropout_at(float rate, uint32_t layer, uint32_t site) const {
    const Dropout of_all = dropout_at(rate, layer, site);
    if (of_all.rate == 0) return of_all;
    return {of_all.rate, of_all.key, own(of_all.sample), own(of_all.position)};
  }
  /// The same for activations with one row per sequence.
  Dropout first_dropout_at(float rate, uint32_t layer, uint32_t site) const {
    if (!dropout || rate == 0) return {};
    return {rate, dropout_key(seed, step, layer, site), batch.first_samples, batch.first_positions};
  }
};

}  // namespace trireme
