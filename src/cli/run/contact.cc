#include "cli/run/contact.h"

#include <pwd.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/host.h"
#include "base/json_text.h"
#include "base/time.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/snapshot/local_disk.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr double kFileSeconds = 10;
constexpr auto kBetweenLooks = std::chrono::milliseconds(100);

std::string who() {
  const passwd* entry = getpwuid(getuid());
  return fmt::format("{} on {}", entry ? entry->pw_name : fmt::format("user {}", getuid()), host_name());
}

std::string text_of(const ControlPlace& place) { return fmt::format("process {} on {}", place.pid, place.host); }

}  // namespace

std::string describe(const RunStatus& status) {
  return fmt::format("ended with code {} ({}){}{}", status.code, name_of(status.state),
                     status.step >= 0 ? fmt::format(" after step {}", status.step) : "",
                     status.message.empty() ? "" : ": " + status.message);
}

std::string newest_snapshot(const std::string& run) {
  const auto step = read_pointer(run, "latest");
  return step ? step_name(*step) : "none";
}

std::optional<std::string> local_snapshot(const std::string& run) {
  const auto note = read_local_note(run);
  if (!note || note->step <= note->copied) return {};
  return fmt::format("{} is only on the local disks of the hosts, in {}", step_name(note->step), note->folder);
}

RunContact::RunContact(std::string run) : run_(std::move(run)) {
  require(fs::is_directory(run_), ErrorKind::io, "{} is not a run folder: the folder does not exist", run_);
  control_ = read_control(run_);
  status_ = status_now();
  require(control_ || status_, ErrorKind::io,
          "{} is not a run folder: it has neither control.json nor status.json; a job writes them after its ranks have "
          "connected and locked the folder",
          run_);
}

std::optional<RunStatus> RunContact::status_now() const {
  if (!fs::exists(status_path(run_))) return {};
  return read_status(run_);
}

std::unique_ptr<StatusClient> RunContact::ask(const ControlPlace& place, const char* what, bool now) {
  const std::string request = dump_json(Json{{"do", what}, {"now", now}, {"who", who()}});
  try {
    return std::make_unique<StatusClient>(place.usable(), control_->secret, request);
  } catch (const Error& e) {
    tried_ = e.what();
    return nullptr;
  }
}

std::unique_ptr<StatusClient> RunContact::ask_job(const char* what, bool now) {
  return control_ ? ask(control_->job, what, now) : nullptr;
}

std::unique_ptr<StatusClient> RunContact::ask_launch(const char* what, bool now) {
  return control_ && control_->launch ? ask(*control_->launch, what, now) : nullptr;
}

std::optional<RunStatus> RunContact::end(const Json& told) const {
  if (told.is_object()) {
    return RunStatus{.state = value_named<RunState>(told.value("state", "")).value_or(RunState::failed),
                     .code = told.value("code", 1),
                     .step = told.value("step", int64_t{-1}),
                     .message = told.value("message", "")};
  }
  for (const auto start = Clock::now(); seconds_since(start) < kFileSeconds;) {
    auto status = status_now();
    if (status && status->state != RunState::running) return status;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return {};
}

RunContact::Life RunContact::life() const {
  if (status_ && status_->state != RunState::running) return Life::ended;
  if (control_ && control_->job.is_gone()) return Life::killed;
  return Life::unknown;
}

std::string RunContact::absence() const {
  const std::string left_over = control_ ? ", and control.json is left over from " + text_of(control_->job) : "";
  switch (life()) {
    case Life::ended:
      return fmt::format("no job is running in {}: it {}{}", run_, describe(*status_), left_over);
    case Life::killed:
      return fmt::format(
          "no job is running in {}: control.json is left over from {}, which exited without a status; start again to "
          "resume "
          "from the last checkpoint",
          run_, text_of(control_->job));
    default:
      break;
  }
  if (!control_) {
    return fmt::format(
        "{} says that a job is running with rank 0 on {}, but control.json, which is needed to reach it, is missing",
        status_path(run_), status_->host);
  }
  const bool tried = !tried_.empty();
  return fmt::format(
      "{} does not answer{}: the process or its host is down, or its port is not reachable from {}; check on that "
      "host: ssh {} trireme status {}",
      text_of(control_->job), tried ? fmt::format(" ({})", tried_) : " on an address that other hosts can reach",
      host_name(), control_->job.host, fs::absolute(run_).string());
}

}  // namespace trireme
