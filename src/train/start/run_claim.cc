#include "train/start/run_claim.h"

#include <fmt/ranges.h>

#include <exception>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/run_folder/attempts.h"
#include "report/append_file.h"

namespace trireme {
namespace {

constexpr int kKilled = 137;  // exit code of shells for SIGKILL

}  // namespace

RunClaim::RunClaim(const RunOptions& run, const std::string& interface, const Process& process, PeerWatch& peers)
    : dir_(run.dir), process_(process), peers_(peers) {
  if (process.rank() != 0) return;
  lock_.emplace(dir_, this_owner(), run.take_over);
  try {
    log::add_file(dir_ + "/log.txt");
  } catch (const Error& e) {
    log::warning("{}; the log is on standard error only", e.what());
  }
  record_attempt(dir_, {unix_time(), process.hosts().hosts(), process.size()});
  before_ = ended_run(dir_);
  reserve_.emplace(dir_);
  const RunStatus running = of_this_rank({.state = RunState::running,
                                          .message = fmt::format("process {}", this_owner().pid),
                                          .control = fmt::format("{}", fmt::join(peers.addresses(), ","))});
  write_status(dir_, running);
  const auto killed = [&](int code, std::string message) {
    return status_text(
        of_this_rank({.state = RunState::killed, .code = code, .step = -1, .message = std::move(message)}));
  };
  guard_.emplace(
      dir_, RunGuard::Texts{
                .running = status_text(running),
                .killed = killed(
                    kKilled,
                    "died without a status (kill -9, out of memory?); start again to resume from the last checkpoint"),
                .stopping = killed(exit_code(ErrorKind::stopped),
                                   "a stop was requested, but the process was killed before it had saved; start again "
                                   "to resume from the last checkpoint")});
  status_server_.emplace(
      dir_, interface, process, [this](const RunStatus& status) { return end_now(status); },
      [&process, &peers] {
        peers.dismiss();  // to leave immediately is not a loss of a rank
        process.abort(exit_code(ErrorKind::stopped));
      });
}

void RunClaim::check() const {
  if (lock_) lock_->check();
}

std::optional<StopRequest> RunClaim::stop_request() const {
  const auto asked = status_server_ ? status_server_->stop_request() : std::nullopt;
  return asked ? asked : peers_.stop_request();
}

bool RunClaim::end(RunStatus status) {
  status = of_this_rank(std::move(status));
  if (status.state == RunState::stopped) status.requeue = !stop_request().value_or(StopRequest()).stays_stopped;
  const bool restores = before_ && status.code != 0;
  try {
    check();
  } catch (const Error&) {
    return false;  // the folder's status belongs to its new owner
  }
  try {
    if (restores)
      restore();
    else if (reserve_)
      reserve_->write(status);
    else
      write_status(dir_, status);
    if (guard_) guard_->dismiss();
    if (status_server_) status_server_->end(status);
    return !restores;
  } catch (const std::exception& e) {
    log::warning("{}", e.what());  // must hide neither why the run ends nor its exit code
    return false;
  }
}

/// Called on another thread than the main one, which may hang.
bool RunClaim::end_now(const RunStatus& status) const {
  try {
    check();
    write_status(dir_, of_this_rank(status));
    return true;
  } catch (const Error& e) {
    log::error("{}", e.what());
    return false;
  }
}

/// Nullopt if the last run was killed: then a failure must be recorded. And if it failed: the newest reason counts.
std::optional<RunClaim::Before> RunClaim::ended_run(const std::string& run_dir) {
  try {
    const std::string path = status_path(run_dir);
    if (!std::filesystem::exists(path)) return {};
    const RunState state = read_status(run_dir).state;
    if (state == RunState::running || state == RunState::failed) return {};
    return Before{read_text(path, kMostStatusBytes), std::filesystem::last_write_time(path)};
  } catch (const std::exception&) {
    return {};  // the status cannot be parsed
  }
}

RunStatus RunClaim::of_this_rank(RunStatus status) const {
  status.rank = process_.rank();
  status.host = process_.host();
  return status;
}

/// With its time, by which launchers distinguish an old status from one of their own job.
void RunClaim::restore() const {
  const std::string path = status_path(dir_);
  write_text(path, before_->text);
  std::filesystem::last_write_time(path, before_->time);
}

}  // namespace trireme
