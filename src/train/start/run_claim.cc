#include "train/start/run_claim.h"

#include <fmt/ranges.h>

#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/log.h"
#include "checkpoint/run_folder/run_control.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/run_folder/run_status.h"
#include "comm/launcher.h"
#include "report/append_file.h"

namespace trireme {
namespace {

constexpr int kKilled = 137;  // exit code of shells for SIGKILL

}  // namespace

RunClaim::RunClaim(const Config& config, const Process& process, PeerWatch& peers)
    : dir_(config.run.dir), process_(process), peers_(peers) {
  if (process.rank() != 0) return;
  lock_.emplace(dir_, this_owner(), config.run.take_over, "", config.names("--run.dir"));
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
      dir_, config.comm.interface, process, [this](const RunStatus& status) { return end_now(status); },
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

namespace {

constexpr auto kLastWords = std::chrono::seconds(5);

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// Whether the commands may come from another host: a batch system or a remote launch chose this one.
bool asked_from_elsewhere(const std::optional<ControlPlace>& launch) {
  for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"}) {
    if (!variable(name).empty()) return true;
  }
  return launch && !launch->is_on_this_host();
}

}  // namespace

JobStatusServer::JobStatusServer(std::string run_dir, const std::string& interface, const Process& process,
                                 std::function<bool(const RunStatus&)> end_now, std::function<void()> leave)
    : dir_(std::move(run_dir)), process_(process), end_now_(std::move(end_now)) {
  const auto launch = place_from_word(variable(kLaunchPlaceVariable));
  has_launch_ = launch.has_value();
  const bool one_host = process.local_size() == process.size();
  try {
    status_server_ = std::make_unique<StatusServer>(
        StatusServerOptions{.this_host_only = one_host && !asked_from_elsewhere(launch),
                            .interface = one_host ? std::string() : interface,
                            .secret = variable(kControlSecretVariable),
                            .status = [this] { return status(); },
                            .on_stop = [this](const std::string& who, bool now) { return stop(who, now); },
                            .leave = std::move(leave),
                            .cpu = &process.heartbeat().cpu()});
    write_control(dir_, {status_server_->secret(), ControlPlace::here(status_server_->addresses()), launch});
    log::set_listener([this](std::string_view line) { status_server_->say(line); });
  } catch (const Error& e) {
    status_server_.reset();
    log::warning("trireme status, stop and attach cannot reach this job: {}", e.what());
  }
}

JobStatusServer::~JobStatusServer() {
  if (status_server_) log::set_listener({});
}

std::optional<StopRequest> JobStatusServer::stop_request() const {
  const std::lock_guard lock(mutex_);
  return stop_;
}

void JobStatusServer::end(const RunStatus& status) {
  if (!status_server_) return;
  status_server_->end(status_text(status));
  if (!has_launch_) remove_control(dir_, status_server_->secret());
}

std::string JobStatusServer::status() const {
  const RankState state = process_.heartbeat().state();
  const auto since = std::chrono::duration_cast<std::chrono::seconds>(start_.time_since_epoch()).count();
  return dump_json(Json{{"state", "running"},
                        {"step", state.step},
                        {"phase", name_of(state.phase)},
                        {"doing", describe(state)},
                        {"ranks", process_.size()},
                        {"since", since},
                        {"last_line", status_server_->last_line()}});
}

/// Called on the server's thread; the main thread may be waiting.
bool JobStatusServer::stop(const std::string& who, bool now) {
  if (!now) {
    const std::lock_guard lock(mutex_);
    stop_ = StopRequest{.why = who, .stays_stopped = true};
    return false;
  }
  std::thread([] {
    std::this_thread::sleep_for(kLastWords);
    std::_Exit(exit_code(ErrorKind::stopped));
  }).detach();
  const RunStatus status{
      .state = RunState::stopped,
      .code = exit_code(ErrorKind::stopped),
      .step = process_.heartbeat().state().step,
      .message = fmt::format("ended immediately by {} --now: the progress after the last snapshot is lost", who),
      .requeue = false};
  log::warning("{}; exiting with code {}", status.message, status.code);
  if (end_now_(status)) end(status);
  return true;
}

}  // namespace trireme
