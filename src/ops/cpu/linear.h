#pragma once
#include "ops/ops.h"

namespace trireme {

/// A layer with more outputs is computed in blocks of this size, above all the head: the packed or widened operands of
/// a block need little memory and stay in the caches.
inline constexpr int64_t kWideBlock = 8192;

/// Scratch of any linear operator within these sizes.
size_t linear_scratch_bytes(const CallSizes& sizes);

}  // namespace trireme
