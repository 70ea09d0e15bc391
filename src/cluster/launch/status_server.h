#pragma once
// How a launch answers `trireme status`, `stop` and `attach` (comm/control/status_server.h): it has the lines of all
// ranks and answers even when no rank runs. Rank 0 writes the address of the launch into RUN/control.json, beside its
// own.

#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/run_folder/run_status.h"
#include "cluster/launch/supervise.h"
#include "comm/control/status_server.h"

namespace trireme {

class LaunchStatusServer {
 public:
  /// this_host_only: all ranks run on this host. A stop request becomes a TERM to this process. Throws Error::comm.
  LaunchStatusServer(std::string run_folder, const std::string& secret, bool this_host_only);
  LaunchStatusServer(const LaunchStatusServer&) = delete;
  LaunchStatusServer& operator=(const LaunchStatusServer&) = delete;
  /// Removes RUN/control.json, too.
  ~LaunchStatusServer();

  /// The value of kLaunchPlaceVariable (comm/launcher.h) for every rank.
  std::string place() const;
  /// Sets what status reports from now on: "attempt 2: 3 rank(s): h[1-3] 1 each".
  void set_activity(std::string text);
  std::optional<launch::StopCaller> caller() const;
  /// Adds complete lines.
  void said(std::string_view text);
  /// The launch ends with `code`; status: the job's own last status, if it has one.
  void end(int code, const std::optional<RunStatus>& status);

 private:
  std::string status() const;

  const std::string run_folder_;
  mutable std::mutex mutex_;  ///< guards the members below
  std::string doing_ = "starting";
  std::optional<launch::StopCaller> caller_;
  StatusServer status_server_;
};

}  // namespace trireme
