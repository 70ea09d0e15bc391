#include "train/start/live_metrics.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "comm/heartbeat.h"
#include "comm/launcher.h"
#include "report/run_log.h"

namespace trireme {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// The last part of the run folder's path.
std::string run_name(const std::string& dir) {
  const std::filesystem::path path = std::filesystem::absolute(dir).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

/// Attempts of the launch before this one, or requeues by Slurm.
int restarts() {
  const std::string attempt = variable(kAttemptVariable), requeues = variable("SLURM_RESTART_COUNT");
  return std::max({0, std::atoi(attempt.c_str()) - 1, std::atoi(requeues.c_str())});
}

RankView view_of(int rank, const std::string& host, const MeshShape& mesh, const RankState& state, bool connected) {
  return {.rank = rank,
          .host = host,
          .place = describe_place(mesh, rank),
          .step = state.step,
          .phase = name_of(state.phase),
          .waits_for = state.collective,
          .waited = state.collective.empty() ? 0 : state.seconds,
          .connected = connected};
}

}  // namespace

LiveMetrics::LiveMetrics(const LogOptions& log, const std::string& run_dir, const RankContext& rank,
                         const MeshShape& mesh, const PeerWatch& peers) {
  if (rank.rank() != 0 || (log.metrics.empty() && log.metrics_file.empty())) return;
  board_ = std::make_shared<RunBoard>(run_name(run_dir), variable("SLURM_JOB_ID"), rank.size(), restarts());
  board_->watch([host = rank.host, mesh, &heartbeat = *rank.heartbeat, &peers] {
    std::vector<RankView> ranks;
    for (const PeerView& peer : peers.views())
      ranks.push_back(view_of(peer.rank, peer.host, mesh, peer.state, peer.joined));
    if (ranks.empty()) ranks.push_back(view_of(0, host, mesh, heartbeat.state(), true));
    return ranks;
  });
  if (log.metrics.empty()) return;
  const std::string token =
      log.metrics_token.empty() ? std::string() : read_token(log.metrics_token, "log.metrics-token");
  try {
    server_.emplace(parse_listen_address(log.metrics).value(), token, board_);
    log::info("live page at {0}, metrics for Prometheus at {0}metrics", server_->url());
  } catch (const Error& error) {
    log::warning("log.metrics: {}; training continues without it", error.what());
  }
  reader_ = std::thread([board = board_, file = run_dir + "/metrics.jsonl"] {
    try {
      board->set_earlier(read_run_log(file));
    } catch (const Error&) {  // there was no attempt before this one
    }
  });
}

LiveMetrics::~LiveMetrics() {
  if (reader_.joinable()) reader_.join();
  if (board_) board_->unwatch();
}

}  // namespace trireme
