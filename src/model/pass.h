#pragma once
// What layers run with: the operators, the micro-batch and the numbers that make dropout replayable.

#include "model/tensor_group.h"
#include "ops/ops.h"

namespace trireme {

/// Packed rows of one micro-batch. All views are of the operators' device.
struct Batch {
  ConstView tokens;     ///< [rows] i32
  ConstView positions;  ///< [rows] i32, position in its sequence
  ConstView types;      ///< [rows] i32, token types, where the model has them
  ConstView targets;    ///< [rows] i32, the token to predict; classifier: [sequences] i32, the class; -1: not counted
  ConstView values;     ///< [sequences] S, what a classifier of one class predicts
  ConstView offsets;    ///< [sequences + 1] i32, first row of each sequence
  ConstView samples;    ///< [rows] i64, global sample index of each row
  /// [sequences] i64 and i32: samples and positions of each sequence's first row, for a classifier's dropout.
  ConstView first_samples, first_positions;
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
  TensorGroup* tensor = nullptr;   ///< the ranks that share each layer; nullptr: this one has all of it

  Dropout dropout_at(float rate, uint32_t layer, uint32_t site) const {
    if (!dropout || rate == 0) return {};
    return {rate, dropout_key(seed, step, layer, site), batch.samples, batch.positions};
  }
  /// The same for activations with one row per sequence.
  Dropout first_dropout_at(float rate, uint32_t layer, uint32_t site) const {
    if (!dropout || rate == 0) return {};
    return {rate, dropout_key(seed, step, layer, site), batch.first_samples, batch.first_positions};
  }
};

}  // namespace trireme
