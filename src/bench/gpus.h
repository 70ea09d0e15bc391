#pragma once
// What each rank of a measurement computes with: its own GPU, or the CPU.

#include <string_view>

#include "comm/rank_context.h"
#include "comm/scalars.h"
#include "ops/backend.h"

namespace trireme {

/// Collective. The GPU of each rank, connected with the others', if a GPU is chosen or, with automatic, every rank has
/// one; else the CPU. Throws Error::usage on all ranks, naming `option`, if GPUs were asked for and a rank has none of
/// its own.
/// cudnn: attention by cuDNN, which needs a GPU: else Error::usage.
Backend backend_of_ranks(DeviceChoice choice, std::string_view option, const RankContext& rank, Scalars& scalars,
                         bool cudnn = false);

}  // namespace trireme
