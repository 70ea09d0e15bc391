#pragma once
// How the gated delta rule is split into tasks, and the arguments of its kernels: a task is one sequence with one key
// head and its value heads, whose chunks follow each other.

#include "ops/ops.h"

namespace trireme {

struct DeltaForward {
  const DeltaShape& shape;
  ConstView mixed, projected, decay_log, decay_bias;
  View out, states;
  ConstView past;  ///< of generation, with `state`; empty: states begin at 0
  View state;
};

struct DeltaBackward {
  const DeltaShape& shape;
  ConstView dout, mixed, projected, decay_log, decay_bias, states;
  View dmixed, dprojected;
  float* sums;  ///< [sequences, 2, heads]: gradients of decay_log and decay_bias
};

struct DeltaTask {
  int64_t sequence = 0, key_head = 0;
  int64_t begin = 0, length = 0;  ///< rows of the sequence
  int64_t border = 0;             ///< of `states`, the sequence's first one
};

/// The task of that number, of sequences x key heads.
DeltaTask delta_task(const DeltaShape& shape, int64_t i);

/// Floats that one thread needs.
int64_t delta_forward_floats(const DeltaShape& shape);
int64_t delta_backward_floats(const DeltaShape& shape);

/// Scratch of the operators of heads with a state; arguments as in Ops::scratch_bytes().
size_t delta_scratch_bytes(const CallSizes& sizes);

}  // namespace trireme
