#pragma once
// This rank's claim on the run folder: its lock, RUN/status.json (checkpoint/run_folder/run_status.h), and the server
// that answers during the run (train/start/job_status_server.h).

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/run_folder/run_lock.h"
#include "checkpoint/run_folder/run_status.h"
#include "comm/process.h"
#include "config/config.h"
#include "train/guard/peer_watch.h"
#include "train/start/job_status_server.h"
#include "train/start/run_guard.h"

namespace trireme {

class RunClaim {
 public:
  /// Rank 0 takes the lock, writes that the run is running and where its control channel is, and answers from now on.
  /// interface: comm.interface. Borrows process and peers. Throws Error::locked, Error::io.
  RunClaim(const RunOptions& run, const std::string& interface, const Process& process, PeerWatch& peers);
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
