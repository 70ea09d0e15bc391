#pragma once
// How rank 0 answers `trireme status`, `stop` and `attach` (comm/control/status_server.h), and RUN/control.json, by
// which they find it. An attach to rank 0 does not show log lines of other ranks; a launch, if there is one, has all
// lines and answers instead of rank 0.

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "checkpoint/run_folder/run_status.h"
#include "comm/control/status_server.h"
#include "comm/control/stop_request.h"
#include "comm/process.h"
#include "config/config.h"

namespace trireme {

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

}  // namespace trireme
