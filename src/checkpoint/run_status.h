#pragma once
// RUN/status.json: how a run ended, or that it goes on. Launchers trust it over the exit code of mpirun.

#include <cstdint>
#include <string>

namespace trireme {

struct RunStatus {
  std::string state;  ///< "running", "done", "stopped", "failed", "peer-lost"
  int code = 0;       ///< exit code of the program
  int64_t step = 0;
  int rank = 0;  ///< that wrote it; of peer-lost: that was lost
  std::string host = {};
  std::string message = {};  ///< why it failed or which rank was lost; else empty
  std::string control = {};  ///< of a running job: where its control channel is, ADDRESS:PORT, separated by commas
  bool operator==(const RunStatus&) const = default;
};

/// Replaces RUN/status.json at once. Throws Error::io.
void write_status(const std::string& run_dir, const RunStatus& status);
/// Throws Error::io, Error::data.
RunStatus read_status(const std::string& run_dir);

}  // namespace trireme
