#pragma once
// What the ranks of a job compute on: all on GPUs, each on its own, or all on CPUs.

#include <functional>
#include <string>

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

/// Collective, of several ranks. The GPU of each rank, which `open` opens, if every rank has its own. Otherwise,
/// if automatic, the CPU of each: rank 0's log says why, if this build has GPUs. Throws what `open` throws, and
/// Error::usage for two ranks with one GPU, on all ranks.
Backend backend_of_several(bool automatic, const std::function<Backend()>& open, const RankContext& rank,
                           Scalars& scalars);

/// Collective. Which two ranks have the same GPU, with what to do; empty: none have. gpu: Backend::gpu of this rank.
std::string shared_gpu(Scalars& scalars, const std::string& gpu, const std::string& host);

}  // namespace trireme
