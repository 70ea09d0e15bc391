#pragma once
#include "ops/ops.h"

namespace trireme {

/// A layer with more outputs is computed in blocks of so many, the head above all: what is packed or widened for a
/// block takes little memory and stays in the caches.
inline constexpr int64_t kWideBlock = 8192;

/// Scratch of any linear operator within these sizes.
size_t linear_scratch_bytes(const CallSizes& sizes);

}  // namespace trireme
