#pragma once
// What each rank of a mesh holds, and what a run needs on disk, before any rank has started: nothing is allocated, and
// the ranks need not exist.

#include <cstdint>
#include <memory>
#include <string>

#include "config/load.h"
#include "ops/ops.h"
#include "train/plan.h"

namespace trireme {

/// Throws Error::config for a mesh that is impossible for the model with any vocabulary, naming the possible sizes.
/// Checks nothing if the model is that of a folder that is not here.
void require_mesh(const LoadedConfig& loaded);

/// A YAML comment line: how much of the model is trained and how much is frozen; empty if everything is trained. Throws
/// Error::config for patterns that do not fit the model.
std::string trained_comment(const LoadedConfig& loaded);

/// What the ranks of a plan compute on. Nothing of it needs to be here.
enum class PlannedDevices : uint8_t { cpus, gpus };
/// GPUs for run.device cuda, else CPUs: auto depends on what the ranks will find.
PlannedDevices planned_devices(const Config& config);

/// YAML comment lines: each rank's place, its part of the model and its planned memory, with one thread per rank and
/// either one host per rank (hosts 0) or the same number of ranks on each host. Above 64 ranks, those that differ only
/// in data and tensor rank share a line. If the model is not known yet, one line says what is missing. Memory is that
/// of the host, or of each rank's GPU. loaded: as resolve_for_ranks() left it. Throws Error::config for a mesh that is
/// impossible for the model, naming the possible sizes, for hosts that do not divide the ranks, and for what GPUs
/// cannot train.
std::string rank_table(const LoadedConfig& loaded, int ranks, int hosts = 0,
                       PlannedDevices devices = PlannedDevices::cpus);

/// The model of a run. lora: as its adapters change it. Throws Error::config if the vocabulary is unknown.
Spec planned_model(const LoadedConfig& loaded, LoraOptions& lora);

/// The ranks in order, the same number on each host. Throws Error::config if hosts do not divide the ranks.
HostMap even_hosts(int ranks, int hosts);

/// Which tensor groups are on several hosts although their hosts have several ranks, and what helps; "": none.
std::string split_tensor_groups(const MeshShape& mesh, const HostMap& hosts);
/// Operators whose sizes are those of the devices.
std::unique_ptr<Ops> planned_ops(PlannedDevices devices);
/// Rank 0 of ranks in order, the same number on each host, with one thread each.
PlannedRank planned_rank(int ranks, int hosts, PlannedDevices devices);

/// The plan of the rank that needs most memory: on GPUs, of the GPU. hosts: with the same number of ranks each. Throws
/// as rank_table() does, and Error::config if the vocabulary is unknown.
RankPlan largest_rank(const LoadedConfig& loaded, int ranks, int hosts, int threads,
                      PlannedDevices devices = PlannedDevices::cpus);

/// Bytes of one snapshot in the run folder; 0: unknown (a model that must be fetched first, data without a known
/// vocabulary) or no snapshot is written.
int64_t snapshot_file_bytes(const LoadedConfig& loaded);

}  // namespace trireme
