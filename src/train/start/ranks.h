#pragma once
// What the ranks of a job share a host and a folder for: the cores of each, the device of each, the run folder that all
// see, the models and data sets that are fetched before all read them.

#include <functional>
#include <string>
#include <string_view>

#include "base/affinity.h"
#include "comm/mesh.h"
#include "comm/process.h"
#include "comm/rank_context.h"
#include "comm/scalars.h"
#include "config/config.h"
#include "hub/place.h"
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

/// Collective. Splits the host's cores between its ranks, binds this process and logs every rank's cores. reserved: for
/// communication, comm.cores.
CorePlan take_cores(const LaunchOptions& launch, int64_t reserved, const Process& process, Scalars& scalars);

/// The same for a process that measures or samples, with this number of threads; 0: its share of the physical cores.
CorePlan take_cores(int64_t threads, const Process& process, Scalars& scalars);

/// Collective. The same again for ranks with a GPU each, which compute on cores of its NUMA node as far as they are
/// not bound. before: what take_cores() gave. bus: of the rank's GPU (Backend::gpu). The log says where every GPU is;
/// where some rank's is unknown, nothing changes. Throws Error::config on all ranks as take_cores().
CorePlan move_to_gpus(const CorePlan& before, const std::string& bus, const LaunchOptions& launch, int64_t reserved,
                      const Process& process, Scalars& scalars);

/// Collective. Whether every rank sees `folder` as rank 0 sees it, as it must where all ranks write their part of a
/// snapshot into it: empty, or which ranks and hosts have another folder or none under this name. `option`: the option
/// that names it. Throws CommonError (io) if rank 0 cannot write.
std::string folder_apart(const std::string& folder, std::string_view option, Scalars& scalars, std::string_view host);

/// Collective. One rank of each host fetches what is missing from its cache; the others log one line and wait. Throws
/// on all ranks if it cannot be fetched, or if the job is asked to stop: stop_reason returns why, or "".
void fetch_named(const hub::Named& named, const RankContext& rank, Scalars& scalars,
                 const std::function<std::string()>& stop_reason);

}  // namespace trireme
