#pragma once
// Copies snapshots from the hosts' own disks into the run folder during training: one at a time, each rank its part;
// published by agreement, as a save is.

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/time.h"
#include "checkpoint/snapshot/local_disk.h"
#include "checkpoint/snapshot/shard_copy.h"
#include "comm/scalars.h"

namespace trireme {

/// One that all ranks have written.
struct LocalSnapshot {
  std::string folder;  ///< on this host's disk
  Manifest manifest;
  std::vector<size_t> shards;  ///< that this rank copies; every shard is some rank's
  bool best = false;

  int64_t step() const { return manifest.facts.progress.step; }
};

class SharedCopies {
 public:
  struct Options {
    std::string run_dir;
    std::string folder;           ///< DIR/RUN-ID (local_disk.h)
    double bytes_per_second = 0;  ///< of this rank; 0: no limit
    int64_t keep = 0;             ///< newest steps that the run folder keeps; 0: all
    std::string keep_name = {};   ///< of this option, for messages
  };
  /// Borrows scalars, whose calls are made inside publish() and finish() only, and progress, which may be null.
  /// check_owner as in CheckpointWriter.
  SharedCopies(Options options, Scalars& scalars, Heartbeat* heartbeat, std::function<void()> check_owner);
  /// A copy that was not published is dropped: the snapshot stays on the local disks.
  ~SharedCopies();

  const std::string& folder() const { return options_.folder; }
  /// All ranks add the same ones; they are copied in order. may_drop: the run folder would keep only the newest of the
  /// waiting ones; skips those that it would delete at once.
  void add(LocalSnapshot snapshot, bool may_drop);
  /// Marks a snapshot that the run folder already has.
  void add_copied(std::string folder, int64_t step);
  /// The run folder got this step in another way.
  void note_published(int64_t step);

  bool pending() const { return !waiting_.empty(); }     ///< something is on local disks only: the same on every rank
  bool running() const { return copy_ != nullptr; }      ///< a copy is under way: the same on every rank
  bool idle() const { return !copy_ || copy_->idle(); }  ///< this rank has done its part of it

  struct Published {
    int64_t step = 0;
    std::string path;
    double seconds = 0;
    bool best = false;
  };
  /// Collective, with a copy under way: waits for every rank's part, agrees, publishes and begins the next one. Throws
  /// CommonError, the same on every rank, where that failed: the snapshot stays, and is tried again after the next
  /// add().
  Published publish(bool may_drop);
  /// Collective: finishes the current and all waiting copies without a time limit, and logs the progress. patience:
  /// seconds without a byte before a warning; after 12 times that, the process exits with 1. told: called for each one.
  void finish(double patience, bool may_drop, const std::function<void(const Published&)>& told);
  /// Nothing is left to copy and the run has ended in order: the local disks are cleared.
  void clear();

 private:
  void start(bool may_drop);
  void drop_what_goes_at_once();
  void in_background(std::vector<std::string> old);
  void wait_for_copy(double patience);

  const Options options_;
  Scalars& scalars_;
  Heartbeat* const heartbeat_;
  const std::function<void()> check_owner_;
  std::string token_;
  std::deque<LocalSnapshot> waiting_;  ///< the first one may be under way
  std::unique_ptr<ShardCopy> copy_;
  Clock::time_point start_;
  std::string copied_folder_;  ///< of the newest one that the run folder has, too; empty: none
  int64_t newest_shared_ = -1, newest_local_ = -1;
  std::thread janitor_;  ///< removes old folders; rank 0 keeps RUN/local.json
};

}  // namespace trireme
