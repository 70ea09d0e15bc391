#pragma once
// Checkpoints of a run: RUN/step-00001234/ with safetensors shards and manifest.json written last; RUN/latest and
// RUN/best name one (docs/design.md, decision 11).

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "comm/communicator.h"
#include "model/parameter_table.h"
#include "optim/training_state.h"

namespace trireme {

/// Everything but tensors that a run needs to go on.
struct RunProgress {
  int64_t step = 0;      ///< optimizer steps done, skipped ones included
  uint64_t samples = 0;  ///< global samples consumed
  int64_t updates = 0;   ///< updates applied: Adam's t
  double best_loss = 0;  ///< lowest validation loss, infinity before the first evaluation
  int64_t best_step = -1;
  int64_t skipped = 0;  ///< steps skipped for non-finite gradients
  int64_t consecutive_skips = 0;
};

/// Size and checksum of a data file that the run reads.
struct DataFileFact {
  std::string path;
  uint64_t bytes = 0;
  std::string hash;  ///< hex64
};

/// What manifest.json says beside the tensors.
struct CheckpointFacts {
  Spec spec;
  RunProgress progress;
  std::string config_json;     ///< resolved configuration
  std::string tokenizer_json;  ///< empty: none known
  std::vector<DataFileFact> data_files;
};

/// Saves in the background from a snapshot arena; every rank writes 1/N of the slices.
class CheckpointWriter {
 public:
  /// Collective. Plans the slices and the snapshot memory; `moments` false stores weights only.
  CheckpointWriter(const std::string& run_dir, const ParameterTable& table, const TrainingState& state,
                   Communicator& group);
  ~CheckpointWriter();

  /// Copies this rank's slices to host buffers and starts writing; returns at once. A save still running is waited for
  /// first.
  void begin(const CheckpointFacts& facts);
  /// True when no save is under way on this rank. Throws what a failed background write threw.
  bool idle();
  /// Collective, at a step boundary where every rank is idle or may wait: agrees, publishes (manifest, latest), prunes
  /// to `keep` newest beside best. Returns the published folder, nothing if no save was under way. Throws Error::io on
  /// every rank if one rank failed; nothing is published then.
  std::optional<std::string> publish(int64_t keep, bool is_best);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

/// A folder that holds a complete checkpoint, opened but not loaded.
struct CheckpointFolder {
  std::string path;
  CheckpointFacts facts;
};

/// `path`: a run folder (its `latest`, else its newest complete step) or a step folder. Throws Error::io, Error::data.
CheckpointFolder open_checkpoint(const std::string& path);
/// Newest checkpoint of the run that verifies; earlier bad ones are named in warnings. Nothing if the folder holds
/// none.
std::optional<CheckpointFolder> find_resumable(const std::string& run_dir);
/// Steps that the run folder holds, ascending.
std::vector<int64_t> list_steps(const std::string& run_dir);
/// Loads weights (and moments, if state has them), checking every slice's XXH3. Throws Error::data naming file, offset
/// range and tensor.
void load_checkpoint(const CheckpointFolder& folder, const ParameterTable& table, TrainingState& state);

}  // namespace trireme
