#pragma once
// How a run ends: RUN/status.json in its folder, and this process' exit code.

#include <cstdint>
#include <functional>
#include <optional>

#include "comm/process.h"
#include "train/guard/peer_watch.h"
#include "train/start/run_claim.h"

namespace trireme {

struct RunEnd {
  int code = 0;  ///< 0, or that of ErrorKind::stopped
  int64_t step = 0;
};

/// Runs `work`, which may fill `claim`, and writes into the folder how it ended: rank 0 writes the common result, any
/// rank its own error. After a failure of communication it waits for the peer watch to find the cause. Returns
/// the exit code (0 for a stop if a launch around this job reads it from the folder); throws what work() throws, except
/// a stop on which all ranks agreed.
int run_to_end(std::optional<RunClaim>& claim, const Process& process, PeerWatch& peers,
               const std::function<RunEnd()>& work);

}  // namespace trireme
