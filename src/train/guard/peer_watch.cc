#include "train/guard/peer_watch.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>

#include "base/cgroup.h"
#include "base/error.h"
#include "base/log.h"
#include "base/time.h"
#include "checkpoint/run_folder/run_lock.h"
#include "checkpoint/run_folder/run_status.h"
#include "comm/launcher.h"
#include "comm/rank_record.h"

namespace trireme {
namespace {

constexpr auto kVerdict = std::chrono::seconds(2);  // a closed connection is noticed within milliseconds
constexpr auto kLookout = std::chrono::seconds(4);  // more, if other hosts have to try their connections
constexpr auto kLastWords = std::chrono::seconds(5);
// mpirun ends the others a second or two after the death of a rank.
constexpr auto kOtherVerdict = std::chrono::milliseconds(400), kNextRank = std::chrono::milliseconds(20);
constexpr auto kAbort = std::chrono::seconds(2);  // of connections between devices

std::string launcher_secret() {
  const char* secret = std::getenv(kControlSecretVariable);
  return secret ? secret : "";
}

[[noreturn]] void leave() { std::_Exit(exit_code(ErrorKind::peer)); }

/// Reports what happened, in the log and in the run folder. likely: likely_end().
void report(const Loss& loss, int rank, const RankState& own, const std::string& run_dir, const std::string& owner,
            const std::string& likely) {
  // A log or a file system that hangs must not keep this rank from leaving.
  std::thread([] {
    std::this_thread::sleep_for(kLastWords);
    leave();
  }).detach();
  if (loss.rank == rank && loss.other < 0) {
    log::error("this rank is lost to the others ({}); it was in {}; exiting with code {}", loss.reason, describe(own),
               exit_code(ErrorKind::peer));
    return;
  }
  tell_launch(
      {.kind = RankRecord::Kind::lost, .rank = loss.rank, .host = loss.host, .text = loss.reason, .other = loss.other});
  log::error("{}; this rank was in {}; exiting with code {}; start again to resume from the last checkpoint{}",
             describe(loss), describe(own), exit_code(ErrorKind::peer), likely);
  if (run_dir.empty()) return;
  try {
    record_loss(run_dir, owner, rank, loss, likely, own.step);
  } catch (const Error& e) {
    log::error("{}", e.what());
  }
}

/// A job that has ended as it should, or as another rank has recorded.
bool has_verdict(const std::string& run_dir) {
  if (!std::filesystem::exists(status_path(run_dir))) return false;
  const RunState state = read_status(run_dir).state;
  return state != RunState::running && state != RunState::killed;
}

}  // namespace

std::string likely_end(const Loss& loss, const std::string& own_host, int64_t memory_kills) {
  if (!loss.ended) return "";
  if (loss.host == own_host && memory_kills > 0)
    return "; the kernel has killed a process of this host because memory ran out: lower batch.micro or the ranks per "
           "host";
  return fmt::format("; if nobody ended it, see `journalctl -k` on {}: the kernel kills a process when memory runs out",
                     loss.host);
}

void record_loss(const std::string& run_dir, const std::string& owner, int rank, const Loss& loss,
                 const std::string& likely, int64_t own_step) {
  if (rank != 0) {
    if (loss.rank != 0) return;
    std::this_thread::sleep_for(kOtherVerdict + std::min(rank - 1, 150) * kNextRank);
  }
  if (!is_held_by(run_dir, owner) || has_verdict(run_dir)) return;
  write_status(run_dir, {.state = RunState::peer_lost,
                         .code = exit_code(ErrorKind::peer),
                         .step = std::max(own_step, loss.last.step),  // of the run, not of the lost rank
                         .rank = loss.rank,
                         .host = loss.host,
                         .message = describe(loss) + likely});
}

/// Aborts the connections between devices, on a thread of its own, which may outlive everything else.
class PeerWatch::Abort : public std::enable_shared_from_this<Abort> {
 public:
  /// Waits for an abort.
  void set(DeviceNetwork* network) {
    const std::lock_guard lock(network_mutex_);
    network_ = network;
  }
  void begin() {
    limit_ = Clock::now() + kAbort;
    begun_ = true;
    const std::lock_guard lock(network_mutex_);
    ended_ = network_ == nullptr;
    if (ended_) return;
    std::thread([self = shared_from_this()] {
      {
        const std::lock_guard network_lock(self->network_mutex_);
        if (self->network_) self->network_->abort_all();
      }
      const std::lock_guard end_lock(self->mutex_);
      self->ended_ = true;
      self->changed_.notify_all();
    }).detach();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, limit_, [&] { return ended_; });
  }
  bool begun() const { return begun_; }

 private:
  std::mutex network_mutex_, mutex_;
  DeviceNetwork* network_ = nullptr;
  std::condition_variable changed_;
  bool ended_ = false;
  Clock::time_point limit_;
  std::atomic<bool> begun_ = false;
};

PeerWatch::Connections::Connections(PeerWatch& peers, DeviceNetwork* network) : peers_(peers) {
  peers_.abort_->set(network);
}
PeerWatch::Connections::~Connections() { peers_.abort_->set(nullptr); }

PeerWatch::PeerWatch(const Config& config, const MeshShape& mesh, const Process& process, Scalars& scalars,
                     Heartbeat& heartbeat)
    : abort_(std::make_shared<Abort>()), heartbeat_(heartbeat), one_host_(process.local_size() == process.size()) {
  const std::string secret = launcher_secret();
  if (process.size() == 1 && secret.empty()) return;
  const std::string run_dir = config.evaluation.only ? std::string() : config.run.dir;
  const std::string owner = scalars.broadcast(process.rank() == 0 ? lock_note(this_owner()) : std::string());
  channel_.emplace(scalars, process.host(), heartbeat,
                   ControlOptions{.hang_timeout = config.run.hang_timeout,
                                  .one_host = one_host_,
                                  .interface = config.comm.interface,
                                  .secret = secret,
                                  .on_loss =
                                      [&heartbeat, run_dir, owner, mesh, rank = process.rank(), host = process.host(),
                                       kills = memory_kills_on_host(), abort = abort_](const Loss& loss) {
                                        const RankState own = heartbeat.state();  // not that of an aborted wait
                                        abort->begin();
                                        Loss named = loss;
                                        if (loss.rank >= 0) named.place = describe_place(mesh, loss.rank);
                                        report(named, rank, own, run_dir, owner,
                                               likely_end(named, host, memory_kills_on_host() - kills));
                                      },
                                  .leave =
                                      [abort = abort_] {
                                        abort->wait();
                                        leave();
                                      }});
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

void PeerWatch::wait_for_verdict() {
  if (!channel_) return;
  const Waiting waiting(&heartbeat_, "the reason why communication has failed", 0);
  channel_->report_trouble();
  std::this_thread::sleep_for(one_host_ ? kVerdict : kLookout);
  while (abort_->begun()) std::this_thread::sleep_for(kVerdict);  // the channel's thread ends the process
}

}  // namespace trireme
