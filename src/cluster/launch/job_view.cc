#include "cluster/launch/job_view.h"

#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/json_text.h"
#include "base/log.h"
#include "checkpoint/run_folder/run_control.h"
#include "comm/control/control.h"

namespace trireme::launch {
namespace {

constexpr double kSecondsAfterLoss = 3, kSecondsAfterEnd = 15;  // for the starter to end
constexpr double kJoinSeconds = 2;                              // no output is passed on during this wait
constexpr int kCannotStart = 2;

}  // namespace

int JobView::final_code(const AttemptEnd& end, const std::string& starter) {
  status_.reset();
  // Open MPI's code for this failure looks like a death by signal.
  const int said = end.not_started || !end.refusal.empty() ? kCannotStart
                   : !end.start_problems.empty()           ? exit_code(ErrorKind::peer)
                                                           : end.code;
  if (!job_.has_status) return said;
  if (!began()) {
    if (said != 0) return said;
    log::error("launch: {} returned 0, but no rank started training: {}/status.json was not written", starter,
               job_.run_folder);
    return 1;
  }
  try {
    status_ = read_status(job_.run_folder);
  } catch (const Error& e) {
    log::warning("launch: {}", e.what());
    return end.code;
  }
  if (status_->state == RunState::running || status_->state == RunState::killed) {  // killed before it could write why
    if (end.lost && !end.stop_requested) return exit_code(ErrorKind::peer);
    return end.code != 0 ? end.code : 1;
  }
  return status_->code;
}

bool JobView::ask_to_stop(const StopRequest& request) const {
  if (!job_.has_status || !began()) return false;
  try {
    const RunStatus status = read_status(job_.run_folder);
    std::vector<std::string> addresses;
    std::istringstream list(status.control);
    for (std::string address; std::getline(list, address, ',');) addresses.push_back(address);
    if (status.state != RunState::running || addresses.empty()) return false;
    ControlClient client(addresses, secret_, ControlClient::kLauncher, "launch", nullptr, {}, kJoinSeconds);
    client.request_stop(request);
    log::info("launch: the job's control channel received the request");
    return true;
  } catch (const Error& e) {
    log::warning("launch: the control channel failed, signalling the ranks instead: {}", e.what());
    return false;
  }
}

double JobView::seconds_to_end() const {
  if (!job_.has_status || !began()) return -1;
  try {
    const RunState state = read_status(job_.run_folder).state;
    return state == RunState::running ? -1 : state == RunState::peer_lost ? kSecondsAfterLoss : kSecondsAfterEnd;
  } catch (const Error&) {
    return -1;  // status.json is being replaced
  }
}

bool JobView::stopped_for_good() const {
  try {
    return !job_.stop_folder.empty() && !read_status(job_.stop_folder).requeue;
  } catch (const Error&) {
    return false;  // the job left no status
  }
}

std::pair<int, int> JobView::lost_ranks(const AttemptEnd& end) const {
  if (end.lost) return {end.lost->rank, end.lost->other};
  return {status_ && status_->state == RunState::peer_lost ? status_->rank : -1, -1};
}

JobView::StatusStamp JobView::status_stamp() const {
  std::error_code absent;
  const std::string path = job_.run_folder + "/status.json";
  const auto time = std::filesystem::last_write_time(path, absent);
  return absent ? StatusStamp() : StatusStamp{time, std::filesystem::file_size(path, absent)};
}

LaunchStatusServer::LaunchStatusServer(std::string run_folder, const std::string& secret, bool this_host_only)
    : run_folder_(std::move(run_folder)),
      status_server_({.this_host_only = this_host_only,
                      .interface = "",
                      .secret = secret,
                      .status = [this] { return status(); },
                      .on_stop =
                          [this](const std::string& who, bool now) {
                            {
                              const std::lock_guard lock(mutex_);
                              caller_ = {who, now};
                            }
                            kill(getpid(), SIGTERM);  // handled in one place, with the other signals
                            return false;
                          },
                      .leave = {}}) {
  log::set_listener([this](std::string_view line) { status_server_.say(line); });
}

LaunchStatusServer::~LaunchStatusServer() {
  log::set_listener({});
  remove_control(run_folder_, status_server_.secret());
}

std::string LaunchStatusServer::place() const { return to_word(ControlPlace::here(status_server_.addresses())); }

void LaunchStatusServer::set_activity(std::string text) {
  const std::lock_guard lock(mutex_);
  doing_ = std::move(text);
}

std::optional<StopCaller> LaunchStatusServer::caller() const {
  const std::lock_guard lock(mutex_);
  return caller_;
}

void LaunchStatusServer::said(std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    status_server_.say(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

void LaunchStatusServer::end(int code, const std::optional<RunStatus>& status) {
  remove_control(run_folder_, status_server_.secret());
  const bool reported = status && status->state != RunState::running && status->code == code;
  status_server_.end(status_text(
      reported ? *status
               : RunStatus{.state = code == 0 ? RunState::done : RunState::failed, .code = code, .step = -1}));
}

std::string LaunchStatusServer::status() const {
  const std::lock_guard lock(mutex_);
  return dump_json(Json{{"doing", doing_}, {"last_line", status_server_.last_line()}});
}

}  // namespace trireme::launch
