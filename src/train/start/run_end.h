#pragma once
// How a run ends: what its folder says of it (RUN/status.json), and this process' exit code.

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

/// Runs `work`, which may fill `claim`, and writes into the folder how it ended: rank 0 what all ranks came to, any
/// rank what it alone met with. A failure of communication waits for what the peers' watch finds out. Returns the exit
/// code, 0 for a stop that the folder tells to a launch around this job; throws what work() throws unless that is a
/// stop on which all ranks agreed.
int run_to_end(std::optional<RunClaim>& claim, const Process& process, const PeerWatch& peers,
               const std::function<RunEnd()>& work);

}  // namespace trireme
