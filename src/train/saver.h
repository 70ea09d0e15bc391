#pragma once
// Snapshots of a run: their content, what happens when one fails, and the link to the best one.

#include <cstdint>
#include <functional>
#include <optional>

#include "checkpoint/snapshot/checkpoint.h"
#include "checkpoint/snapshot/shared_copies.h"
#include "comm/agreement.h"
#include "report/metrics.h"
#include "train/guard/skips.h"
#include "train/run.h"
#include "train/session.h"

namespace trireme {

/// Which weights of a run are known to be good. Exploded weights show only in the steps after them, whose loss or
/// gradients are not finite: during such a streak nothing is saved, and older snapshots are kept until a good step has
/// followed a new one. Pure functions, the same on every rank.
class WeightsWatch {
 public:
  /// A step was computed with the weights that the run had after `step` steps. An overflow in f16 says nothing about
  /// them.
  void record_step(int64_t step, const StepResult& result);
  /// An evaluation of the current weights gave this loss. A finite loss ends a streak of skipped spikes, but proves
  /// nothing else: exploded weights may have a finite loss but no finite gradients.
  void record_evaluation(double loss);

  /// The weights are again those of a snapshot, none of which is saved during a streak.
  void record_roll_back() { last_ = Last::good; }

  /// The last step was skipped, and nothing since has shown that the weights are good.
  bool in_streak() const { return last_ != Last::good; }
  /// The newest step whose weights gave a good step; -1: none yet.
  int64_t good_step() const { return good_step_; }

 private:
  enum class Last { good, spike, not_finite };
  Last last_ = Last::good;
  int64_t good_step_ = -1;
};

constexpr double kDiskPatience = 12;

class Saver {
 public:
  /// Collective over the session's mesh. Borrows run and session; written bytes count as progress of the rank. A
  /// run that resumes continues from its snapshot: one that was named instead of found leaves later steps of the folder
  /// behind. check_claim: asked before each save and publication; throws Error::locked once another job owns the run
  /// folder. Throws CommonError (io), also if the disk has no space for a snapshot.
  Saver(const Run& run, Session& session, std::function<void()> check_claim);

  /// Size and content of a snapshot, and how many the disk can take, for the head of the log of the first rank.
  std::string describe() const;
  /// The current weights are the best so far: the next snapshot, which is due now, is the best one.
  void mark_best() { best_ = true; }
  void forget_best() { best_ = false; }
  bool has_best() const { return best_; }
  /// A snapshot of these weights exists or is being written.
  bool has(int64_t step) const { return begun_ == step && !best_; }
  /// Step of the newest snapshot that every host can read, and its folder: in the run folder, or, until this start has
  /// saved one there, the snapshot that the run was resumed from, in any folder. -1 and "": there is none.
  int64_t published_step() const { return shared_; }
  std::string newest_folder() const;
  /// Reports the result of the step on the weights after `step` steps; reports the loss of an evaluation of the current
  /// weights.
  void record_step(int64_t step, const StepResult& result);
  void record_evaluation(double loss, bool of_validation_data) {
    watch_.record_evaluation(loss);
    validates_ = of_validation_data ? Validates::yes : Validates::on_other_data;
  }
  /// Reports that the run went back to the weights of newest_folder().
  void record_roll_back() {
    watch_.record_roll_back();
    postponed_ = false;
  }
  /// True: do not save now, the weights may have exploded. postpone() remembers that a snapshot was due.
  bool in_streak() const { return watch_.in_streak(); }
  void postpone(int64_t step);
  bool is_postponed() const { return postponed_; }
  /// The run has done all of its steps and published its last snapshot: logs why a best one is missing,
  /// and creates its link if that is missing. Throws CommonError (numeric) if it ends in a streak.
  void finish(const RunCounters& progress);
  /// Collective. The run ends normally and the run folder has all snapshots: clears the local disks.
  void clear_local();

  /// From here on a snapshot that fails is an error whatever checkpoint.on-error says.
  void require_success() { must_succeed_ = true; }

  /// Collective. Copies the state and writes it in the background. The previous save must have been published. Throws
  /// CommonError (locked) if another job has taken over the run folder.
  void begin(const RunCounters& progress);
  /// A snapshot was begun and is not yet published.
  bool pending() const { return writer_.pending(); }
  /// The snapshot is published or has failed; publish() does not wait.
  bool idle() const { return writer_.idle(); }
  /// Collective. Waits until the snapshot is published, and accounts for it. Warns if the disk accepts no data for
  /// run.hang-timeout; after kDiskPatience times that, a process without other ranks (which has no peer watch) exits
  /// with 1. Returns nullopt if the snapshot failed and training continues without it. One that must succeed is tried
  /// again for checkpoint.retry; one that ends the run goes to run.fallback at last. Throws Error::io, Error::locked.
  std::optional<CheckpointEvent> publish();

  /// A snapshot on local disks is being copied into the run folder: the same on every rank.
  bool copying() const { return copies_ && copies_->running(); }
  /// This rank has copied its part; once all ranks have, publish_copy() does not wait.
  bool copy_idle() const { return !copies_ || copies_->idle(); }
  /// Collective, while copying(). As publish(): the run folder has the snapshot now; nullopt if the copy failed and
  /// training continues without it.
  std::optional<CheckpointEvent> publish_copy();
  /// Collective. Copies all snapshots that the run folder does not have; calls `published` with each. Throws
  /// CommonError.
  void finish_copies(const std::function<void(const CheckpointEvent&)>& published);

 private:
  void start_from(int64_t step);
  void open_fallback();
  std::string written_folder();
  void keep_weights(const CommonError& failure);
  void open_local(const Session& session);
  std::optional<CheckpointEvent> publish_local();
  CheckpointEvent account_copy(const SharedCopies::Published& copy);
  bool newest_is_good() const { return watch_.good_step() >= published_; }
  CheckpointFacts facts_of(const RunCounters& progress) const;
  void wait_for_disk() const;
  std::string newest() const;  ///< path of the newest snapshot, or "none"
  void log_best(const RunCounters& progress) const;
  void link_best(const std::string& folder) const;

  const RunPlan& plan_;
  const std::vector<DataFileFact>& data_files_;  ///< the run's
  std::function<void()> check_claim_;
  Scalars scalars_;
  Heartbeat* const heartbeat_;
  CheckpointWriter writer_;
  SnapshotSpace space_;                 ///< known by the first rank only
  std::optional<SharedCopies> copies_;  ///< with checkpoint.local
  bool best_ = false;                   ///< the best weights are not saved yet
  bool saving_best_ = false;            ///< the snapshot being written has the best weights
  enum class Validates : uint8_t { not_yet, on_other_data, yes } validates_ = Validates::not_yet;
  bool must_succeed_ = false;
  WeightsWatch watch_;
  bool postponed_ = false;               ///< a snapshot was due in a streak
  bool unpruned_ = false;                ///< older ones are kept until a good step has followed the newest
  int64_t begun_ = -1, published_ = -1;  ///< steps; published: complete on local disks or in the run folder
  int64_t shared_ = -1;                  ///< newest that every host can read
  int64_t started_ = -1;                 ///< the same, while that is what the run was resumed from
};

}  // namespace trireme
