#pragma once
// What layers run with: the operators, the micro-batch and the numbers that make dropout replayable.

#include "ops/ops.h"

namespace trireme {

/// Packed rows of one micro-batch. All views are of the operators' device.
struct Batch {
  ConstView tokens;     ///< [rows] i32
  ConstView positions;  ///< [rows] i32, position in its sequence
  ConstView targets;    ///< [rows] i32, next token; -1: not counted
  ConstView offsets;    ///< [sequences + 1] i32, first row of each sequence
  ConstView samples;    ///< [rows] i64, global sample index of each row
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

  Dropout dropout_at(float rate, uint32_t layer, uint32_t site) const {
    if (!dropout || rate == 0) return {};
    return {rate, dropout_key(seed, step, layer, site), batch.samples, batch.positions};
  }
};

}  // namespace trireme
