#include "cluster/launch/attendant.h"

#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/log.h"
#include "checkpoint/run_control.h"

namespace trireme {

LaunchAttendant::LaunchAttendant(std::string run_folder, const std::string& secret, bool this_host_only)
    : run_folder_(std::move(run_folder)),
      attendant_({.this_host_only = this_host_only,
                  .interface = "",
                  .secret = secret,
                  .status = [this] { return status(); },
                  .on_stop =
                      [this](const std::string& who, bool now) {
                        {
                          const std::lock_guard lock(mutex_);
                          caller_ = {who, now};
                        }
                        kill(getpid(), SIGTERM);  // what it does can then be read in one place
                        return false;
                      },
                  .leave = {}}) {
  log::set_listener([this](std::string_view line) { attendant_.say(line); });
}

LaunchAttendant::~LaunchAttendant() {
  log::set_listener({});
  remove_control(run_folder_, attendant_.secret());
}

std::string LaunchAttendant::place() const { return to_word(ControlPlace::here(attendant_.addresses())); }

void LaunchAttendant::is_doing(std::string text) {
  const std::lock_guard lock(mutex_);
  doing_ = std::move(text);
}

std::optional<launch::StopCaller> LaunchAttendant::caller() const {
  const std::lock_guard lock(mutex_);
  return caller_;
}

void LaunchAttendant::said(std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    attendant_.say(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

void LaunchAttendant::end(int code, const std::optional<RunStatus>& status) {
  remove_control(run_folder_, attendant_.secret());
  const bool told = status && status->state != "running" && status->code == code;
  attendant_.end(
      status_text(told ? *status : RunStatus{.state = code == 0 ? "done" : "failed", .code = code, .step = -1}));
}

std::string LaunchAttendant::status() const {
  const std::lock_guard lock(mutex_);
  return dump_json(Json{{"doing", doing_}, {"last_line", attendant_.last_line()}});
}

}  // namespace trireme
