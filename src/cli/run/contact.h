#pragma once
// The job of a run folder, asked from another terminal (comm/control/status_server.h), and its state according to its
// files if it does not answer.

#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "checkpoint/run_folder/run_control.h"
#include "checkpoint/run_folder/run_status.h"
#include "comm/control/status_server.h"

namespace trireme {

class RunContact {
 public:
  /// Reads RUN/control.json and RUN/status.json. Throws Error::io if it is not a run folder, or belongs to another
  /// user.
  explicit RunContact(std::string run);

  const std::string& run() const { return run_; }
  const std::optional<RunControl>& control() const { return control_; }
  const std::optional<RunStatus>& status() const { return status_; }
  /// Reads status.json again.
  std::optional<RunStatus> status_now() const;

  /// Asks rank 0, or the launch that started it; none if neither answers: absence() then gives the reason.
  std::unique_ptr<StatusClient> ask_job(const char* what, bool now = false);
  std::unique_ptr<StatusClient> ask_launch(const char* what, bool now = false);

  /// After the end of an answer: the job's last status, from the answer (its "end", or null) or from status.json, which
  /// a network file system shows late; nothing if the job ended without a status.
  std::optional<RunStatus> end(const Json& told) const;

  enum class Life { ended, killed, unknown };
  /// If there was no answer: the state of the job.
  Life life() const;
  /// "no job is running in RUN: it ended with code 0 (done) at step 20", or why that is unknown here.
  std::string absence() const;

 private:
  std::unique_ptr<StatusClient> ask(const ControlPlace& place, const char* what, bool now);

  std::string run_;
  std::optional<RunControl> control_;
  std::optional<RunStatus> status_;
  std::string tried_;  ///< why the last attempt gave no answer
};

inline constexpr const char* kNoLastStatus =
    "the job exited without a status, or is no longer reachable; trireme status shows more";

/// "ended with code 75 (stopped) after step 120: the message"
std::string describe(const RunStatus& status);
/// Newest snapshot in the run folder: "step-00000120" or "none".
std::string newest_snapshot(const std::string& run);
/// "step-00000140 is only on the local disks of the hosts, in DIR/RUN-ID", if there is a snapshot that the run folder
/// does not have (yet).
std::optional<std::string> local_snapshot(const std::string& run);

}  // namespace trireme
