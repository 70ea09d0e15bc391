#pragma once
// This rank's claim on the run folder: its lock, RUN/status.json (checkpoint/run_folder/run_status.h), and the server
// by which rank 0 answers `trireme status`, `stop` and `attach` during the run (comm/control/status_server.h).

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/run_folder/run_lock.h"
#include "checkpoint/run_folder/run_status.h"
#include "comm/control/status_server.h"
#include "comm/process.h"
#include "config/config.h"
#include "train/guard/peer_watch.h"

namespace trireme {

/// A small process beside rank 0 that outlives it for a moment: a rank that is killed (kill -9, out of memory, the
/// second Ctrl-C of mpirun) cannot write into RUN/status.json how it ended, so this process does. It is in a separate
/// session, holds no file and no lock of the run, and ends with its rank. It does not survive the end of its host or
/// control group (as by Slurm).
class RunGuard {
 public:
  struct Texts {
    std::string running;   ///< content of status.json now; any other content is never replaced
    std::string killed;    ///< its new content when this process ends without dismiss()
    std::string stopping;  ///< the same after stop::requested()
  };
  /// If the process cannot be created the guard is missing: only the status of a killed run is lost.
  RunGuard(const std::string& run_dir, Texts texts);
  RunGuard(const RunGuard&) = delete;
  RunGuard& operator=(const RunGuard&) = delete;
  ~RunGuard();
  /// The end was recorded: the guard exits now and writes nothing.
  void dismiss();

 private:
  int pipe_ = -1;
  int process_ = -1;
};

/// An attach to rank 0 does not show log lines of other ranks; a launch, if there is one, has all lines and answers
/// instead of rank 0. RUN/control.json says where.
class JobStatusServer {
 public:
  /// If it cannot listen, it gives a warning and none of the three commands reaches the job. end_now: writes into the
  /// run folder that the run was ended immediately; false: the folder belongs to another job now. leave: then ends all
  /// ranks. interface: comm.interface. Borrows process.
  JobStatusServer(std::string run_dir, const std::string& interface, const Process& process,
                  std::function<bool(const RunStatus&)> end_now, std::function<void()> leave);
  JobStatusServer(const JobStatusServer&) = delete;
  JobStatusServer& operator=(const JobStatusServer&) = delete;
  ~JobStatusServer();

  /// Who requested a stop at the next step; nullopt without a request.
  std::optional<StopRequest> stop_request() const;
  /// The final answer to waiting commands. Removes RUN/control.json, unless a launch around this job still answers
  /// there.
  void end(const RunStatus& status);

 private:
  std::string status() const;
  bool stop(const std::string& who, bool now);

  const std::string dir_;
  const Process& process_;
  const std::function<bool(const RunStatus&)> end_now_;
  const std::chrono::system_clock::time_point start_ = std::chrono::system_clock::now();
  bool has_launch_ = false;
  mutable std::mutex mutex_;  ///< guards stop_
  std::optional<StopRequest> stop_;
  std::unique_ptr<StatusServer> status_server_;
};

class RunClaim {
 public:
  /// Rank 0 takes the lock, writes that the run is running and where its control channel is, and answers from now on.
  /// Borrows process and peers. Throws Error::locked, Error::io.
  RunClaim(const Config& config, const Process& process, PeerWatch& peers);
  /// Throws Error::locked if another job has taken over the folder.
  void check() const;
  /// A stop request that did not come as a signal; nullopt if there is none, and on other ranks than 0.
  std::optional<StopRequest> stop_request() const;
  /// The start succeeded: from now on the folder's status is that of this run, not of an earlier one.
  void begin() { before_.reset(); }
  /// The run ends on this rank. A start that fails before begin() keeps the folder's status of an ended run, unless
  /// that had failed, too. A status that cannot be written gives a warning; none is written into a folder that another
  /// job has taken over. Returns whether the folder has the status.
  bool end(RunStatus status);

 private:
  /// The content of a file, and when it was written.
  struct Before {
    std::string text;
    std::filesystem::file_time_type time;
  };
  static std::optional<Before> ended_run(const std::string& run_dir);
  RunStatus of_this_rank(RunStatus status) const;
  bool end_now(const RunStatus& status) const;
  void restore() const;

  std::string dir_;
  const Process& process_;
  PeerWatch& peers_;
  std::optional<RunLock> lock_;
  std::optional<Before> before_;
  std::optional<StatusReserve> reserve_;
  std::optional<RunGuard> guard_;
  std::optional<JobStatusServer> status_server_;
};

}  // namespace trireme
