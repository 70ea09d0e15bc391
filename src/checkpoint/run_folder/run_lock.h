#pragma once
// One owner of a run folder (docs/design.md, decision 16): an open-file-description lock on RUN/lock plus a note of who
// holds it. The lock ends with its process, however that dies; the note is reported to the next process, and decides
// where locks do not work (another host).

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

struct LockOwner {
  std::string host;
  std::string boot_id;  ///< of the kernel: the same on two "hosts" that are containers of one machine
  int64_t pid = 0;
  std::string job;      ///< empty: started by hand
  int64_t attempt = 0;  ///< of the job, counted up by requeue or restart
};

/// This process: job and attempt from TRIREME_JOB_ID and TRIREME_ATTEMPT (set by `trireme launch`), else SLURM_JOB_ID
/// and SLURM_RESTART_COUNT.
LockOwner this_owner();
/// What RUN/lock contains while this owner holds it.
std::string lock_note(const LockOwner& owner);
/// Whether the folder belongs to the owner with this note, as any of its processes sees it.
bool is_held_by(const std::string& run_dir, const std::string& note);

class RunLock {
 public:
  /// Creates the run folder if needed and takes its lock: when no process on this host holds it, the last owner
  /// released it, or `owner` is a later attempt of the same job; else only with take_over. Throws Error::locked naming
  /// the holder, and giving `advice` (empty: what a run can do, dir_option names its folder); Error::io.
  RunLock(const std::string& run_dir, const LockOwner& owner, bool take_over, std::string_view advice = {},
          std::string_view dir_option = "--run.dir");
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

  /// Throws Error::locked when another process took the folder over meanwhile; to be asked before each save.
  void check() const;

 private:
  bool is_ours() const;

  std::string path_;
  std::string note_;  ///< of this owner, as written in the file
  int fd_ = -1;
};

}  // namespace trireme
