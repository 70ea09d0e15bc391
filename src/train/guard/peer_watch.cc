#include "train/guard/peer_watch.h"

#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "base/launch_variables.h"
#include "base/log.h"
#include "checkpoint/run_folder/run_status.h"
#include "comm/rank_record.h"

namespace trireme {
namespace {

constexpr auto kVerdict = std::chrono::seconds(2);  // a closed connection is noticed within milliseconds
constexpr auto kLastWords = std::chrono::seconds(5);

std::string launcher_secret() {
  const char* secret = std::getenv(kControlSecretVariable);
  return secret ? secret : "";
}

[[noreturn]] void leave() { std::_Exit(exit_code(ErrorKind::peer)); }

/// Reports what happened, in the log and in the run folder.
void report(const Loss& loss, int rank, const RankState& own, const std::string& run_dir) {
  // A log or a file system that hangs must not keep this rank from leaving.
  std::thread([] {
    std::this_thread::sleep_for(kLastWords);
    leave();
  }).detach();
  if (loss.rank == rank) {
    log::error("the other ranks declared this one lost ({}) and exited; it was in {}; exiting with code {}",
               loss.reason, describe(own), exit_code(ErrorKind::peer));
    return;
  }
  tell_launch({.kind = RankRecord::Kind::lost, .rank = loss.rank, .host = loss.host, .text = loss.reason});
  log::error("{}; this rank was in {}; exiting with code {}; start again to resume from the last checkpoint",
             describe(loss), describe(own), exit_code(ErrorKind::peer));
  if (run_dir.empty()) return;
  try {
    write_status(run_dir, {.state = RunState::peer_lost,
                           .code = exit_code(ErrorKind::peer),
                           .step = loss.last.step,
                           .rank = loss.rank,
                           .host = loss.host,
                           .message = describe(loss)});
  } catch (const Error& e) {
    log::error("{}", e.what());
  }
}

}  // namespace

PeerWatch::PeerWatch(const Config& config, const MeshShape& mesh, const Process& process, Scalars& scalars,
                     const Heartbeat& heartbeat) {
  const std::string secret = launcher_secret();
  if (process.size() == 1 && secret.empty()) return;
  const std::string run_dir = config.evaluation.only ? std::string() : config.run.dir;
  channel_.emplace(scalars, process.host(), heartbeat,
                   ControlOptions{.hang_timeout = config.run.hang_timeout,
                                  .one_host = process.local_size() == process.size(),
                                  .interface = config.comm.interface,
                                  .secret = secret,
                                  .on_loss =
                                      [&heartbeat, run_dir, mesh, rank = process.rank()](const Loss& loss) {
                                        Loss named = loss;
                                        named.place = describe_place(mesh, loss.rank);
                                        report(named, rank, heartbeat.state(), run_dir);
                                      },
                                  .leave = leave});
}

PeerWatch::~PeerWatch() = default;

std::vector<std::string> PeerWatch::addresses() const {
  return channel_ ? channel_->addresses() : std::vector<std::string>();
}

std::optional<StopRequest> PeerWatch::stop_request() const {
  return channel_ ? channel_->stop_request() : std::nullopt;
}

std::vector<PeerView> PeerWatch::views() const { return channel_ ? channel_->views() : std::vector<PeerView>(); }

void PeerWatch::dismiss() {
  if (channel_) channel_->dismiss();
}

void PeerWatch::wait_for_verdict() const {
  if (channel_) std::this_thread::sleep_for(kVerdict);
}

}  // namespace trireme
