#pragma once
// What a training step's speed is held against.

#include <cstdint>

#include "model/spec.h"
#include "tensor/dtype.h"

namespace trireme {

/// FLOP/s of all GEMMs of a step over `rows` tokens, one after the other, each in its best layout: the blocks' and,
/// where every token has logits, the head's. Measured, takes seconds.
double step_ceiling(const Spec& spec, DType dtype, int64_t rows, int threads);

}  // namespace trireme
