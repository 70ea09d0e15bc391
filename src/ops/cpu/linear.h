#pragma once
#include "ops/ops.h"

namespace trireme {

/// Scratch of any linear operator within these sizes.
size_t linear_scratch_bytes(const CallSizes& sizes);

}  // namespace trireme
