#pragma once
// The operators of a GPU as far as a plan needs them, on machines without a GPU and without libtrireme_cuda.so.

#include <memory>

#include "ops/ops.h"

namespace trireme {

/// Sizes only: scratch_bytes() and head_block() are those of the GPU's operators without cuDNN, the device is not the
/// host. Operators refuse activations of every type, and the device allocates nothing.
std::unique_ptr<Ops> make_planned_gpu_ops();

}  // namespace trireme
