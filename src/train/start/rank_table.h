#pragma once
// What each rank of a mesh holds, for `config show`: nothing is allocated, and the ranks need not exist.

#include <string>

#include "config/load.h"
#include "train/start/run_plan.h"

namespace trireme {

/// Throws Error::config for a mesh that is impossible for the model with any vocabulary, naming the possible sizes.
/// Checks nothing if the model is that of a folder that is not here.
void require_mesh(const LoadedConfig& loaded);

/// A YAML comment line: how much of the model is trained and how much is frozen; empty if everything is trained. Throws
/// Error::config for patterns that do not fit the model.
std::string trained_comment(const LoadedConfig& loaded);

/// YAML comment lines: each rank's place, its part of the model and its planned memory, with one thread per rank and
/// either one host per rank (hosts 0) or the same number of ranks on each host. Above 64 ranks, those that differ only
/// in data and tensor rank share a line. If the model is not known yet, one line says what is missing. loaded: as
/// resolve_for_ranks() left it. Throws Error::config for a mesh that is impossible for the model, naming the possible
/// sizes, and for hosts that do not divide the ranks.
std::string rank_table(const LoadedConfig& loaded, int ranks, int hosts = 0);

/// The plan of the rank that needs most memory. hosts: with the same number of ranks each. Throws as rank_table() does,
/// and Error::config if the vocabulary is unknown.
RunPlan largest_rank(const LoadedConfig& loaded, int ranks, int hosts, int threads);

}  // namespace trireme
