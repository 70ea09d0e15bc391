#pragma once
// Translates the options of group optim to those of the optimizer.

#include "config/config.h"
#include "optim/loss_scale.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace trireme {

RateSchedule schedule_of(const Config& config);
/// For a run in f16; nullopt for others.
std::optional<LossScaleOptions> loss_scale_options(const PrecisionOptions& precision);
/// comm.reduce, of which auto is hosts if GPUs compute and the data ranks of each tensor and pipeline rank are on
/// several hosts, with the same number, more than one, on each; else flat.
ReduceOrder reduce_order(const Config& config, const MeshShape& mesh, const HostMap& hosts, bool gpus);
/// The optimizer options of a rank of the mesh. hosts: of all ranks. gpus: they compute on GPUs. exchange_cores: where
/// the exchange thread runs; empty: anywhere.
OptimizerOptions optimizer_options(const Config& config, const MeshShape& mesh, int rank, const HostMap& hosts,
                                   bool gpus, std::vector<int> exchange_cores);
/// Throws Error::config if comm.reduce or optim.shard-group is not possible with data ranks on these hosts.
void require_hosts(const Config& config, const MeshShape& mesh, const HostMap& hosts);

}  // namespace trireme
