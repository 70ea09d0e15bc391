#pragma once
// RUN/status.json: how a run ended, or that it is still running. Launchers trust it over the exit code of mpirun.

#include <cstdint>
#include <string>
#include <vector>

#include "base/names.h"

namespace trireme {

enum class RunState : uint8_t {
  running,
  done,
  stopped,
  failed,
  peer_lost,
  killed,  ///< it could not tell how it ended
};
template <>
struct Names<RunState> {
  static constexpr Named<RunState> kAll[] = {{"running", RunState::running},     {"done", RunState::done},
                                             {"stopped", RunState::stopped},     {"failed", RunState::failed},
                                             {"peer-lost", RunState::peer_lost}, {"killed", RunState::killed}};
};

struct RunStatus {
  RunState state = RunState::running;
  int code = 0;  ///< exit code of the program
  int64_t step = 0;
  int rank = 0;  ///< that wrote it; of peer-lost: that was lost
  std::string host = {};
  std::string message = {};  ///< why it failed or which rank was lost; of a running job: its process; else empty
  std::string control = {};  ///< of a running job: where its control channel is, ADDRESS:PORT, separated by commas
  bool requeue = true;       ///< of a stopped run: resume automatically; false after `trireme stop`
  bool operator==(const RunStatus&) const = default;
};

std::string status_path(const std::string& run_dir);
/// Marks in that file a stopped run that must not resume automatically: batch scripts look for it.
inline constexpr const char* kStaysStopped = "\"requeue\":false";
/// The output of write_status(): at most kMostStatusBytes, for any message.
std::string status_text(const RunStatus& status);
inline constexpr size_t kMostStatusBytes = 8192;
/// Replaces RUN/status.json at once. Throws Error::io.
void write_status(const std::string& run_dir, const RunStatus& status);
/// Throws Error::io, Error::data.
RunStatus read_status(const std::string& run_dir);

/// Space for one status that is taken when the run begins, so that its end can be recorded on a full disk.
class StatusReserve {
 public:
  /// Makes RUN/status.reserve; where that fails nothing is reserved.
  explicit StatusReserve(std::string run_dir);
  StatusReserve(const StatusReserve&) = delete;
  StatusReserve& operator=(const StatusReserve&) = delete;
  ~StatusReserve();
  /// As write_status(), into the reserve where that fails; once.
  void write(const RunStatus& status);

 private:
  std::string run_dir_, path_;
  int fd_ = -1;
};

// RUN/attempts.jsonl: when the run's attempts began, and on how many hosts.

struct AttemptRecord {
  double time = 0;  ///< Unix seconds
  int hosts = 0, ranks = 0;
};

/// Appends one. A folder that cannot take it gives a warning.
void record_attempt(const std::string& run_dir, const AttemptRecord& attempt);
/// In their order; without lines that are not records (a killed process leaves at most one). None: no such file.
std::vector<AttemptRecord> read_attempts(const std::string& run_dir);

}  // namespace trireme
