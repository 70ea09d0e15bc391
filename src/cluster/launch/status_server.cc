#include "cluster/launch/status_server.h"

#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/log.h"
#include "checkpoint/run_folder/run_control.h"

namespace trireme {

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

std::optional<launch::StopCaller> LaunchStatusServer::caller() const {
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

}  // namespace trireme
