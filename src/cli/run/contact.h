#pragma once
// The job that works in a run folder, asked from another terminal (comm/control/status_server.h), and what its files
// say when nobody answers.

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
  /// Reads RUN/control.json and RUN/status.json. Throws Error::io for what is no run folder, and for another user's.
  explicit RunContact(std::string run);

  const std::string& run() const { return run_; }
  const std::optional<RunControl>& control() const { return control_; }
  const std::optional<RunStatus>& status() const { return status_; }
  /// Of status.json as it is now.
  std::optional<RunStatus> status_now() const;

  /// Asks rank 0, or the launch around it; none where nobody answers, and absence() then says why.
  std::unique_ptr<StatusClient> ask_job(const char* what, bool now = false);
  std::unique_ptr<StatusClient> ask_launch(const char* what, bool now = false);

  /// Once an answer has ended: the job's last word, as it was told ("end" of the answer, or null) or as status.json has
  /// it, which a network file system shows late; nothing when it went without one.
  std::optional<RunStatus> end(const Json& told) const;

  enum class Life { ended, killed, unknown };
  /// After nobody has answered: what became of the job.
  Life life() const;
  /// "no job runs in RUN: it ended with code 0 (done) at step 20", or why that cannot be told from here.
  std::string absence() const;

 private:
  std::unique_ptr<StatusClient> ask(const ControlPlace& place, const char* what, bool now);

  std::string run_;
  std::optional<RunControl> control_;
  std::optional<RunStatus> status_;
  std::string tried_;  ///< why the last one that was asked gave no answer
};

inline constexpr const char* kGoneWithoutAWord =
    "the job has gone without a word, or cannot be reached any more: trireme status tells more";

/// "ended with code 75 (stopped) after step 120: the message"
std::string describe(const RunStatus& status);
/// "step-00000120", "none": of the run folder.
std::string newest_snapshot(const std::string& run);
/// "step-00000140 is on the hosts' own disks only, in DIR/RUN-ID": where there is one that the run folder has not
/// (yet).
std::optional<std::string> local_snapshot(const std::string& run);

}  // namespace trireme
