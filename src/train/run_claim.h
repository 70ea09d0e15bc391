#pragma once
// This rank's claim on the run folder: its lock, and what RUN/status.json says of the run (checkpoint/run_status.h).

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/run_lock.h"
#include "checkpoint/run_status.h"
#include "comm/process.h"
#include "config/config.h"

namespace trireme {

class RunClaim {
 public:
  /// Rank 0 takes the lock and writes that the run goes on. control: where a launcher reaches the job. Throws
  /// Error::locked, Error::io.
  RunClaim(const Config& config, const Process& process, const std::vector<std::string>& control);
  /// Throws Error::locked when another job took the folder over meanwhile.
  void check() const;
  /// The run ends on this rank. A status that cannot be written gives a warning; none is written into a folder that
  /// another job has taken over.
  void end(RunStatus status) const;

 private:
  void write(RunStatus status) const;

  std::string dir_;
  const Process& process_;
  std::optional<RunLock> lock_;
};

}  // namespace trireme
