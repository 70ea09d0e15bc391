#pragma once
// The launched job as the launch sees it: through status.json of its run folder and its control channel.

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "checkpoint/run_folder/run_status.h"
#include "cluster/launch/job.h"
#include "cluster/launch/supervise.h"
#include "comm/control/status_server.h"

namespace trireme::launch {

class JobView {
 public:
  /// job: borrowed. secret: of the job's control channel.
  JobView(const JobFacts& job, std::string secret) : job_(job), secret_(std::move(secret)) {}

  /// From now on only a status.json that is written later is used.
  void begin_attempt() { before_ = status_stamp(); }
  /// Whether the attempt has written its status.json; false for a job that writes none.
  bool began() const { return status_stamp() != before_; }
  /// The exit code of the attempt: the job's own if it has one, because mpirun may return 0 for a killed job.
  int final_code(const AttemptEnd& end, const std::string& starter);
  /// As final_code() read it; empty if the job has none.
  const std::optional<RunStatus>& status() const { return status_; }
  /// The lost rank (negative: unknown), and the one that it cannot reach (negative: it itself is lost). A host that is
  /// cut off considers the others lost and may write that into status.json; what reached this process comes from its
  /// own side of the network.
  std::pair<int, int> lost_ranks(const AttemptEnd& end) const;

  /// Through the job's control channel, whose address a running job writes into its status.json. False if that fails.
  bool ask_to_stop(const StopRequest& request) const;
  /// After the job has ended: seconds that the starter may take to end; negative before.
  double seconds_to_end() const;
  /// Whether the stop was one after which Slurm must not queue the job again.
  bool stopped_for_good() const;

 private:
  using StatusStamp = std::pair<std::filesystem::file_time_type, uintmax_t>;
  StatusStamp status_stamp() const;

  const JobFacts& job_;
  std::string secret_;
  StatusStamp before_;
  std::optional<RunStatus> status_;
};

// How a launch answers `trireme status`, `stop` and `attach` (comm/control/status_server.h): it has the lines of all
// ranks and answers even when no rank runs. Rank 0 writes the address of the launch into RUN/control.json, beside its
// own.

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
  std::optional<StopCaller> caller() const;
  /// Adds complete lines.
  void said(std::string_view text);
  /// The launch ends with `code`; status: the job's own last status, if it has one.
  void end(int code, const std::optional<RunStatus>& status);

 private:
  std::string status() const;

  const std::string run_folder_;
  mutable std::mutex mutex_;  ///< guards the members below
  std::string doing_ = "starting";
  std::optional<StopCaller> caller_;
  StatusServer status_server_;
};

}  // namespace trireme::launch
