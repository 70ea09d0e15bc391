#pragma once
// Checkpoints of a run: RUN/step-00001234/ with safetensors shards and manifest.json written last; RUN/latest and
// RUN/best name one (docs/design.md, decision 11; docs/checkpoint-format.md).

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/run_folder/run_folder.h"
#include "comm/communicator.h"
#include "model/parameter_table.h"
#include "optim/loss_scale.h"
#include "optim/training_state.h"

namespace trireme {

/// Running mean and variance of the losses of a run, for the detection of spikes.
struct LossTrend {
  int64_t count = 0;
  double mean = 0, variance = 0;
  bool operator==(const LossTrend&) const = default;
};

/// Everything except tensors that a run needs to resume.
struct RunCounters {
  int64_t step = 0;      ///< optimizer steps done, skipped ones included
  uint64_t samples = 0;  ///< global samples consumed
  int64_t updates = 0;   ///< updates applied: Adam's t
  double best_loss = 0;  ///< lowest validation loss, infinity before the first evaluation
  int64_t best_step = -1;
  int64_t skipped = 0;  ///< steps skipped because they were not finite or a spike
  int64_t consecutive_skips = 0;
  LossTrend losses;
  int64_t overflows = 0;                     ///< those of `skipped` whose gradients overflowed in f16
  std::optional<LossScale> loss_scale = {};  ///< of a run in f16
  /// What a learning rate per step counts: steps that an overflow in f16 skipped do not move it.
  int64_t scheduled_steps() const { return step - overflows; }
  bool operator==(const RunCounters&) const = default;
};

/// Size and checksum of a data file that the run reads.
struct DataFileFact {
  std::string path;
  uint64_t bytes = 0;
  std::string hash;  ///< hex64
  bool operator==(const DataFileFact&) const = default;
};

/// What manifest.json says beside the tensors.
struct CheckpointFacts {
  Spec spec;
  RunCounters progress;
  std::string config_json;     ///< resolved configuration, a JSON object (empty: none)
  std::string tokenizer_json;  ///< empty: unknown
  std::vector<DataFileFact> data_files;
  /// hex64 of the weights' hash (optim/parameter_hash.h); empty: unknown. A CheckpointWriter stores that of what it
  /// writes, whatever is given here.
  std::string parameter_hash = {};
  /// The one of manifests of version 2, which depends on the layout and is only displayed; empty: missing.
  std::string layout_hash = {};
  std::string generation = {};  ///< read_generation_files() of the model that it began as; empty: unknown
};

struct LocalSnapshot;  // shared_copies.h

/// Saves in the background from a snapshot arena; ranks that hold the same share the writing of it (slices.h). Weights
/// f32 or bf16; optimizer states are stored when the state has them. A background thread of each rank writes, and once
/// all ranks have written, rank 0's publishes: no step, evaluation or call of the main threads is waited for.
class CheckpointWriter {
 public:
  /// Collective. Creates the run folder and removes what interrupted saves left in it (rank 0; the caller owns the
  /// folder's lock), plans the slices and allocates the snapshot memory. The tables of the ranks, each of the rank's
  /// own layout, make up the whole model.
  /// Borrows everything. `group` is used here and in begin() only: the background threads have one split from it.
  /// `progress`, which may be null, moves with every slice that is on the disk. `check_owner`, which may be null,
  /// throws Error::locked on rank 0, on any thread, once the run folder has another owner: nothing is published or
  /// deleted then. dir_option: the name of the run folder's option in messages. Throws Error::io on every rank.
  CheckpointWriter(const std::string& run_dir, const ParameterTable& table, const TrainingState& state,
                   Communicator& group, Heartbeat* heartbeat = nullptr, std::function<void()> check_owner = {},
                   std::string dir_option = "--run.dir");
  /// The snapshot memory of a rank. layouts: of all ranks, which together hold the whole model. states: with the
  /// optimizer's.
  static size_t snapshot_bytes(const ParameterTable& whole, std::span<const Layout> layouts, int rank, bool states);
  /// Waits for the background work: a save that was begun is still published.
  ~CheckpointWriter();

  /// Collective. Throws Error::io on every rank when a checkpoint with these facts does not fit on the disk. The first
  /// rank knows the space, the others get zeros.
  SnapshotSpace require_space(const CheckpointFacts& facts);
  /// Collective where ranks share the optimizer's state, parts of which travel to who stores them. Copies this rank's
  /// slices to host buffers and starts writing; returns at once. The save before must have ended in publish(). local:
  /// a folder on each host's own disk (local_disk.h) that takes the shards in place of the run folder; empty: none.
  /// best: RUN/best names it, too.
  void begin(const CheckpointFacts& facts, const std::string& local = {}, bool best = false);
  /// The save under way goes to local disks.
  bool is_local() const;
  /// A save was begun and not yet ended by publish(): the same on every rank.
  bool pending() const;
  /// True when the save is published or has failed, so that publish() will not wait.
  bool idle() const;
  /// This rank has written its part and waits for what the others do.
  bool waits_for_ranks() const;
  /// Waits for idle(), for so long at most; returns it.
  bool wait(double seconds) const;
  /// Slices of the save under way that are on the disk.
  int64_t slices_done() const;
  /// Waits for the publication (manifest, latest, best) and starts to prune(keep). Returns the published folder,
  /// nothing if no save was begun. Throws Error::io or Error::locked, the same on every rank, if one failed; nothing is
  /// published then and its files are removed.
  std::optional<std::string> publish(int64_t keep);
  /// Names the folders of this writer's saves: the same on every rank, and no other job's.
  const std::string& token() const;
  /// After publish() has failed: the same snapshot again, into this run folder, whose owner is not checked if it is
  /// another one. Pending until publish(). Collective; throws Error::io on every rank.
  void retry(const std::string& run_dir);
  /// hex64 of the weights' hash (optim/parameter_hash.h) of what publish() or publish_local() returned last, and the
  /// seconds from begin() until it was published.
  const std::string& parameter_hash() const;
  double seconds() const;
  /// Publishes a save on local disks, which is complete when each host has the manifest. Nothing where a disk did
  /// not take its part, which is reported in a warning: nothing of the save is left there, it goes to the run folder
  /// now, and is pending until publish().
  std::optional<LocalSnapshot> publish_local();
  /// Rank 0 deletes, in the background, all but the `keep` newest steps (0: none) and best, once the newest has been
  /// read back and verified.
  void prune(int64_t keep);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

/// Checks a step folder's manifest and that every shard is there with its size; the tensors' checksums are for
/// load_snapshot(). Throws Error::io, Error::data.
CheckpointFacts open_snapshot(const std::string& step_folder);
/// Reads every byte of a step folder; one line per fault: file, offset range, tensor. Empty: it is good.
std::vector<std::string> verify_checkpoint(const std::string& step_folder);
/// Loads what the table holds: weights and, with `states`, the optimizer's, whatever layout saved them. Only the pieces
/// of slices (manifest.h) that have something of it are read, each after a check of its XXH3; returns their bytes.
/// nearby: a folder on this host's disk that has some of the shards, too, and is read first; empty: none. Throws
/// Error::data naming file, offset range and tensor, or listing every parameter that differs between snapshot and
/// model.
uint64_t load_snapshot(const std::string& step_folder, const std::string& nearby, const ParameterTable& table,
                       TrainingState& state, bool states);
/// Deletes all but the `keep` newest steps up to `latest` (0: keeps all), `latest` and `best`, including abandoned
/// ones. Verifies the newest first and throws Error::data if it is bad. Returns the deleted steps.
std::vector<int64_t> prune_checkpoints(const std::string& run_dir, int64_t keep);

}  // namespace trireme
