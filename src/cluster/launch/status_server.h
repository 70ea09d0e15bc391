#pragma once
// A launch as `trireme status`, `stop` and `attach` meet it (comm/control/status_server.h): it has the lines of all
// ranks, and is there when no rank runs. Rank 0 writes its place into RUN/control.json, beside its own.

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
  /// RUN/control.json goes with it.
  ~LaunchStatusServer();

  /// For kLaunchPlaceVariable (base/launch_variables.h) of every rank.
  std::string place() const;
  /// What status says from here on: "attempt 2: 3 rank(s): h[1-3] 1 each".
  void is_doing(std::string text);
  std::optional<launch::StopCaller> caller() const;
  /// Whole lines.
  void said(std::string_view text);
  /// The launch ends with `code`; status: the job's own last word, where it has one.
  void end(int code, const std::optional<RunStatus>& status);

 private:
  std::string status() const;

  const std::string run_folder_;
  mutable std::mutex mutex_;  ///< of what follows
  std::string doing_ = "starting";
  std::optional<launch::StopCaller> caller_;
  StatusServer status_server_;
};

}  // namespace trireme
