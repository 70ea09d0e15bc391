#pragma once
// What a training step's speed is held against.

#include <cstdint>

#include "model/spec.h"
#include "tensor/dtype.h"

namespace trireme {

/// FLOP/s of all GEMMs of a step, one after the other.
struct StepCeiling {
  double flops_per_second = 0;        ///< each in its best layout
  double plain_flops_per_second = 0;  ///< each with its operands as they lie
};

/// Of a step over `rows` tokens: the blocks' GEMMs and, where every token has logits, the head's. Measured, takes
/// seconds.
StepCeiling step_ceiling(const Spec& spec, DType dtype, int64_t rows, int threads);

}  // namespace trireme
