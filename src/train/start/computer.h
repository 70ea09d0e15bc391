#pragma once
// What the ranks of a job compute on: all on GPUs, each on one of its own, or all on CPUs.

#include "comm/mesh.h"
#include "comm/rank_context.h"
#include "comm/scalars.h"
#include "config/config.h"
#include "ops/backend.h"

namespace trireme {

/// Collective. What this rank computes with, by run.device. auto takes CPUs if one rank cannot have a GPU; rank 0's log
/// says which and why, if this build has GPUs. Throws Error::usage and Error::config, the same on all ranks, if GPUs
/// were asked for and a rank cannot have one, and for options that need another choice.
Backend choose_backend(const Config& config, const MeshShape& mesh, const RankContext& rank, Scalars& scalars);

}  // namespace trireme
