#pragma once
// Snapshots of a run: what goes into them, what becomes of one that fails, and the link to the best one.

#include <functional>
#include <optional>

#include "checkpoint/snapshot/checkpoint.h"
#include "checkpoint/snapshot/shared_copies.h"
#include "report/metrics.h"
#include "train/guard/weights_watch.h"
#include "train/run.h"
#include "train/session.h"

namespace trireme {

constexpr double kDiskPatience = 12;

class Saver {
 public:
  /// Collective over the session's mesh. Borrows run and session; the rank's heartbeat moves with what is written. A
  /// run that resumes continues from its snapshot: one that was named instead of found leaves later steps of the folder
  /// behind. check_claim: asked before each save and publication; throws Error::locked once another job owns the run
  /// folder. Throws CommonError (io), also if the disk has no room for a snapshot.
  Saver(const Run& run, Session& session, std::function<void()> check_claim);

  /// The weights as they stand are the best so far: the next snapshot, which is due now, is the best one.
  void mark_best() { best_ = true; }
  void forget_best() { best_ = false; }
  bool has_best() const { return best_; }
  /// A snapshot of these weights is there or under way.
  bool has(int64_t step) const { return begun_ == step && !best_; }
  /// Step of the newest snapshot that every host can read, and its folder: of the run folder, or, until that has one of
  /// this start, what the run was resumed from, wherever that lies. -1 and "": there is none.
  int64_t published_step() const { return shared_; }
  std::string newest_folder() const;
  /// What the step after `step` steps showed of the weights that it was made on; what an evaluation of them did.
  void saw_step(int64_t step, const StepResult& result);
  void saw_evaluation(double loss, bool of_validation_data) {
    watch_.saw_evaluation(loss);
    validates_ = of_validation_data;
  }
  /// Nothing is to be saved now: the weights may have exploded. put_off() remembers that a snapshot was due.
  bool in_streak() const { return watch_.in_streak(); }
  void put_off(int64_t step);
  bool is_put_off() const { return put_off_; }
  /// The run has made all of its steps and published its last snapshot: says why there is no best one if there is none,
  /// and makes its link if that is missing. Throws CommonError (numeric) where it ends in a streak.
  void finish(const RunCounters& progress);
  /// Collective. The run ends in order, and the run folder has all of it: local disks are cleared.
  void clear_local();

  /// From here on a snapshot that fails is an error whatever checkpoint.on-error says.
  void insist() { insists_ = true; }

  /// Collective. Copies the state and writes it in the background. The save before must have been published. Throws
  /// CommonError (locked) once another job has taken the run folder over.
  void begin(const RunCounters& progress);
  /// Something was begun and not yet published.
  bool pending() const { return writer_.pending(); }
  /// This rank has written what was begun; once all have, publish() will not wait.
  bool idle() const { return writer_.idle(); }
  /// Collective. Waits until what was begun is written, and publishes it. A disk that takes nothing for
  /// run.hang-timeout is told; after kDiskPatience times that a process without others, whom its ranks' watch does not
  /// end, leaves with 1. Nothing if that failed and training goes on without. Throws Error::io, Error::locked.
  std::optional<CheckpointEvent> publish();

  /// A snapshot on local disks is being copied into the run folder: the same on every rank.
  bool copying() const { return copies_ && copies_->running(); }
  /// This rank has done its part of that; once all have, publish_copy() will not wait.
  bool copy_idle() const { return !copies_ || copies_->idle(); }
  /// Collective, while copying(). As publish(): the run folder has the snapshot now; nothing if that failed and
  /// training goes on without.
  std::optional<CheckpointEvent> publish_copy();
  /// Collective. Copies all that the run folder has not yet; `told` hears of each. Throws CommonError.
  void finish_copies(const std::function<void(const CheckpointEvent&)>& told);

 private:
  void start_from(int64_t step);
  void open_local(const Session& session);
  std::optional<CheckpointEvent> publish_local();
  CheckpointEvent account_copy(const SharedCopies::Published& copy);
  bool newest_is_good() const { return watch_.good_step() >= published_; }
  CheckpointFacts facts_of(const RunCounters& progress) const;
  void wait_for_disk() const;
  std::string newest() const;  ///< path of the newest snapshot, "none"
  void tell_best(const RunCounters& progress) const;
  void link_best(const std::string& folder) const;

  const RunPlan& plan_;
  std::function<void()> check_claim_;
  Scalars scalars_;
  CheckpointWriter writer_;
  std::optional<SharedCopies> copies_;  ///< with checkpoint.local
  Clock::time_point start_;
  bool best_ = false;         ///< no snapshot has the best weights yet
  bool saving_best_ = false;  ///< the one under way does
  bool validates_ = true;     ///< evaluations are of validation data, which the run has
  bool insists_ = false;
  WeightsWatch watch_;
  bool put_off_ = false;                 ///< a snapshot was due in a streak
  bool unpruned_ = false;                ///< older ones wait until a good step has followed the newest
  int64_t begun_ = -1, published_ = -1;  ///< steps; the latter whole on local disks or in the run folder
  int64_t shared_ = -1;                  ///< newest that every host can read
  int64_t started_ = -1;                 ///< the same, while that is what the run was resumed from
};

}  // namespace trireme
