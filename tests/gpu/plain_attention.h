#pragma once
#include <memory>

#include "cuda/attention_library.h"

namespace trireme {

/// Loops over host memory: the twin of cuDNN on the executor, for a GPU of compute capability 9.0. It writes over its
/// workspace, and refuses one that is too small.
std::unique_ptr<AttentionLibrary> make_plain_attention();

}  // namespace trireme
