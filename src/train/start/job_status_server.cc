#include "train/start/job_status_server.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/json_text.h"
#include "base/log.h"
#include "checkpoint/run_folder/run_control.h"
#include "checkpoint/run_folder/run_folder.h"
#include "comm/launcher.h"

namespace trireme {
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
