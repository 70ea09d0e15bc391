#pragma once
// Rank 0 as `trireme status`, `stop` and `attach` meet it (comm/control/status_server.h), and RUN/control.json, by
// which they find it. Lines of the log that other ranks write are not among those that an attach follows: the launch,
// where there is one, has them all and answers in its place.

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
  /// Where it cannot answer it gives a warning and none of the three commands reaches the job. end_now: writes into the
  /// run folder that the run is ended at once; false: it is not this job's any more. leave: then ends all ranks.
  /// Borrows process.
  JobStatusServer(const Config& config, const Process& process, std::function<bool(const RunStatus&)> end_now,
                  std::function<void()> leave);
  JobStatusServer(const JobStatusServer&) = delete;
  JobStatusServer& operator=(const JobStatusServer&) = delete;
  ~JobStatusServer();

  /// For a stop at the next step; nothing before somebody has asked.
  std::optional<StopRequest> stop_request() const;
  /// The last word to those who wait; RUN/control.json goes, unless a launch around this job still answers there.
  void end(const RunStatus& status);

 private:
  std::string status() const;
  bool stop(const std::string& who, bool now);

  const std::string dir_;
  const Process& process_;
  const std::function<bool(const RunStatus&)> end_now_;
  const std::chrono::system_clock::time_point start_ = std::chrono::system_clock::now();
  bool has_launch_ = false;
  mutable std::mutex mutex_;  ///< of stop_
  std::optional<StopRequest> stop_;
  std::unique_ptr<StatusServer> status_server_;
};

}  // namespace trireme
