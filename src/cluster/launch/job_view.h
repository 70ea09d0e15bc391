#pragma once
// The launched job as the launch sees it: through status.json of its run folder and its control channel.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "checkpoint/run_folder/run_status.h"
#include "cluster/launch/job.h"
#include "cluster/launch/supervise.h"
#include "comm/control/stop_request.h"

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

}  // namespace trireme::launch
