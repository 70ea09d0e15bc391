#pragma once
// What monitoring systems read of a run while it trains (log.metrics, log.metrics-file), on rank 0.

#include <memory>
#include <optional>
#include <thread>

#include "comm/mesh.h"
#include "comm/rank_context.h"
#include "config/config.h"
#include "report/live/metrics_server.h"
#include "report/live/run_board.h"
#include "train/guard/peer_watch.h"

namespace trireme {

class LiveMetrics {
 public:
  /// Nothing on other ranks, and where neither option is set. If it cannot listen it gives a warning, and the run
  /// continues without. Borrows peers, and the heartbeat of the rank. Throws Error::io, Error::config about the file of
  /// the token.
  LiveMetrics(const LogOptions& log, const std::string& run_dir, const RankContext& rank, const MeshShape& mesh,
              const PeerWatch& peers);
  ~LiveMetrics();
  LiveMetrics(const LiveMetrics&) = delete;
  LiveMetrics& operator=(const LiveMetrics&) = delete;

  /// Empty where there is nothing to show.
  const std::shared_ptr<RunBoard>& board() const { return board_; }

 private:
  std::shared_ptr<RunBoard> board_;
  std::optional<MetricsServer> server_;
  std::thread reader_;  ///< of what earlier attempts recorded
};

}  // namespace trireme
