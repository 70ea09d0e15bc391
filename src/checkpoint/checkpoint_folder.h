#pragma once
// The door to checkpoints of training, ours and GPT-NeoX's: what a folder holds, opening and loading it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/snapshot/checkpoint.h"
#include "config/option_names.h"

namespace trireme {

/// Who wrote a checkpoint.
enum class CheckpointOrigin : uint8_t {
  trireme,
  neox,          ///< GPT-NeoX, with the optimizer's state
  neox_weights,  ///< GPT-NeoX, weights only
};

/// A folder that holds a complete checkpoint, opened but not loaded.
struct CheckpointFolder {
  std::string path;
  CheckpointFacts facts;
  CheckpointOrigin origin = CheckpointOrigin::trireme;
  std::vector<std::string> notes = {};  ///< what a user should know of it, a line each
  std::string nearby = {};              ///< load_snapshot()
};

/// `path`: a run folder (its newest step, run_steps.h), a step folder, RUN/best, or one of GPT-NeoX. Checks as
/// open_snapshot() and NeoxCheckpoint do. Throws Error::io, Error::data; for NeoX's YAML Error::config.
CheckpointFolder open_checkpoint(const std::string& path, const OptionNames& names = {});
/// The checkpoint to resume from: the newest step (run_steps.h), or the newest before it that verifies; bad ones are
/// named in warnings. Nothing if the folder holds no checkpoint; Error::data if all of its checkpoints are bad or were
/// removed. Reads every byte; not collective: one rank asks and tells the others.
std::optional<CheckpointFolder> find_resumable(const std::string& run_dir, const OptionNames& names = {});
/// Loads what the table holds: weights and the optimizer's states, if state has them. Returns the bytes that were read.
/// Throws as load_snapshot() and NeoxCheckpoint::load().
uint64_t load_checkpoint(const CheckpointFolder& folder, const ParameterTable& table, TrainingState& state);
/// The same of weights alone, from a checkpoint that need not have more; the states stay as they are.
uint64_t load_weights(const CheckpointFolder& folder, const ParameterTable& table, TrainingState& state);

}  // namespace trireme
