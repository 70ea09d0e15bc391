#include "cluster/health/run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/opened_file.h"
#include "base/printable.h"
#include "base/text.h"
#include "base/time.h"
#include "cluster/health/bash_host.h"
#include "cluster/subprocess.h"

namespace trireme::health {
namespace {

constexpr const char* kKinds[] = {"pass", "fail", "skipped", "not checked"};

/// The outcome of a check of GPUs where there is none: as with NHC, a node that should have some is broken.
Outcome without_gpu(const std::string& check, const Machine& machine) {
  if (machine.skip_gpu) return skipped("no GPU on this node");
  return failed("{}: no GPU on this node; if it has none by design, exclude it from the line, or use --skip-gpu",
                check);
}

void name_failure(const std::string& check, Outcome& outcome) {
  if (outcome.kind != Outcome::Kind::fail) return;
  outcome.text = fmt::format("{}: {}", outcome.name.empty() ? check : outcome.name, outcome.text);
}

/// Runs a known check with its words, as called by a line or a site function.
Outcome run_check(const KnownCheck& known, Words words, const Machine& machine, bool gpu) {
  if (known.gpu && !gpu) return without_gpu(std::string(known.name), machine);
  Outcome outcome;
  try {
    const Check check = known.make(words);
    outcome = check(machine);
  } catch (const Error& e) {
    return not_checked(fmt::format("{}: {}", known.name, e.what()));
  }
  name_failure(std::string(known.name), outcome);
  return outcome;
}

/// The outcome of a check that bash does not find.
std::string why_unknown(const std::string& name) {
  std::vector<std::string> names;
  for (const KnownCheck& known : known_checks()) {
    if (known.name == name) return "not implemented in trireme, and no site file defines it";
    names.emplace_back(known.name);
  }
  return fmt::format("unknown check \"{}\": neither Trireme nor the site's scripts have it; nearest is {}", name,
                     nearest(name, names));
}

Outcome run_step(const Step& step, const Machine& machine, bool gpu) {
  if (step.kind == StepKind::bad)
    return step.number > 0 ? unusable(step.placed_problem()) : not_checked(step.placed_problem());
  if (step.gpu && !gpu) return without_gpu(step.name, machine);
  if (step.kind == StepKind::not_implemented) return not_checked("not implemented in trireme");
  Outcome outcome = step.check(machine);
  name_failure(step.name, outcome);
  return outcome;
}

/// Sends a line {"step": i, "left": pids that earlier checks left running} before each check, {"kind", "text", "code",
/// "unusable", "called", "check"} for each of its results, {"end": i} after it.
void send(int fd, const Json& message) {
  const std::string line = dump_json(message) + "\n";
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t put = write(fd, line.data() + sent, line.size() - sent);
    if (put < 0 && errno != EINTR) _exit(1);
    if (put > 0) sent += static_cast<size_t>(put);
  }
}

/// The child's side of the pipe.
class Runner {
 public:
  Runner(const Plan& plan, const Machine& machine, bool all, int fd)
      : plan_(plan), machine_(machine), all_(all), fd_(fd), gpu_(has_gpu(machine)), bash_(machine, callbacks()) {}

  void run() {
    for (size_t i = 0; i < plan_.steps.size() && !stop_; ++i) {
      const Step& step = plan_.steps[i];
      if (!step.applies) continue;
      if (step.kind == StepKind::variables) {
        set_variables(step);
        continue;
      }
      std::set<int> left = descendants_of(getpid());
      left.erase(bash_.pid());
      send(fd_, {{"step", i}, {"left", left}});
      if (step.kind == StepKind::command && !(step.gpu && !gpu_)) {
        run_in_bash(i);
      } else {
        report(step.text, outcome_of(step));
      }
      send(fd_, {{"end", i}});
    }
  }

 private:
  BashHost::Callbacks callbacks() {
    return {[this](const std::vector<std::string>& words) {
              const auto known = std::ranges::find(known_checks(), words[0], &KnownCheck::name);
              return run_check(*known, Words(words).subspan(1), machine_, gpu_);
            },
            why_unknown};
  }

  void set_variables(const Step& step) {
    for (const std::string& word : step.words) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos || plan_.fixed.contains(word.substr(0, equals))) continue;
      setenv(word.substr(0, equals).c_str(), word.c_str() + equals + 1, 1);  // PATH, too
      bash_.set(word.substr(0, equals), word.substr(equals + 1));
    }
  }

  Outcome outcome_of(const Step& step) const {
    try {
      return run_step(step, machine_, gpu_);
    } catch (const std::exception& e) {
      return failed("{}: {}", step.name, e.what());
    }
  }

  void run_in_bash(size_t at) {
    const Step& step = plan_.steps[at];
    for (const LineResult& result : bash_.run(step.text, step.number)) report(result.check, result.outcome);
    if (!bash_.ended()) return;
    // A line with `exit 0` ends NHC with a healthy node; the lines after it are not checked.
    const bool goes_on = all_ && failed_;
    if (goes_on) return;
    stop_ = true;
    for (size_t i = at + 1; i < plan_.steps.size() && !failed_; ++i) {
      if (!plan_.steps[i].applies || plan_.steps[i].kind == StepKind::variables) continue;
      send(fd_, {{"step", i}, {"left", Json::array()}});
      report(plan_.steps[i].text, not_checked(fmt::format("line {} ended the checks", step.number)));
      send(fd_, {{"end", i}});
    }
  }

  void report(const std::string& check, const Outcome& outcome) {
    send(fd_, {{"kind", kKinds[static_cast<int>(outcome.kind)]},
               {"text", outcome.text},
               {"code", outcome.code},
               {"unusable", outcome.unusable},
               {"called", outcome.called},
               {"check", check}});
    failed_ = failed_ || outcome.kind == Outcome::Kind::fail;
    stop_ = stop_ || (outcome.kind == Outcome::Kind::fail && !all_);
  }

  const Plan& plan_;
  const Machine& machine_;
  bool all_;
  int fd_;
  bool gpu_, failed_ = false, stop_ = false;
  BashHost bash_;
};

[[noreturn]] void run_in_child(const Plan& plan, const Machine& machine, bool all, int fd) {
  setpgid(0, 0);
  become_subreaper();
  for (const char* name : names_of_nhc_alone()) unsetenv(name);
  for (const auto& [name, value] : plan.initial) setenv(name.c_str(), value.c_str(), 1);
  setenv("NHC_CHECK_ALL", all ? "1" : "0", 1);
  Runner(plan, machine, all, fd).run();
  _exit(0);
}

Outcome::Kind kind_of(const std::string& name, const std::string& where) {
  const auto found = std::ranges::find(kKinds, name);
  require(found != std::end(kKinds), ErrorKind::data, "{}: \"{}\" is not an outcome", where, name);
  return static_cast<Outcome::Kind>(found - std::begin(kKinds));
}

std::vector<const Result*> of_kinds(const std::vector<Result>& results, std::initializer_list<Outcome::Kind> kinds) {
  std::vector<const Result*> found;
  for (const Result& result : results) {
    if (std::ranges::find(kinds, result.outcome.kind) != kinds.end()) found.push_back(&result);
  }
  return found;
}

/// "check_cuda_bw, check_gpu_ecc, ... (not implemented in trireme; no GPU on this node)"
std::string list(const std::vector<const Result*>& results) {
  constexpr size_t kMost = 8;
  std::string names;
  std::vector<std::string> reasons;
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string& check = results[i]->check;
    if (i < kMost) names += (i == 0 ? "" : ", ") + check.substr(0, check.find(' '));
    if (std::ranges::find(reasons, results[i]->outcome.text) == reasons.end()) {
      reasons.push_back(results[i]->outcome.text);
    }
  }
  if (results.size() > kMost) names += ", ...";
  return fmt::format("{} ({})", names, fmt::join(reasons, "; "));
}

/// The parent's side of the pipe.
class Watch {
 public:
  Watch(const Plan& plan, const CheckOptions& options, int fd, pid_t child, std::string host)
      : plan_(plan), options_(options), fd_(fd), child_(child) {
    report_.host = std::move(host);
  }

  Report finish() {
    while (receive()) {
    }
    report_.seconds = seconds_since(start_);
    if (step_ != nullptr) close_open_step();
    if (report_.timed_out) end_tree(child_, left_);
    kill(-child_, SIGKILL);
    // Do not wait for a child stuck in the kernel; init inherits it.
    waitpid(child_, nullptr, report_.timed_out ? WNOHANG : 0);
    return std::move(report_);
  }

 private:
  bool receive() {
    const double left = options_.seconds > 0 ? options_.seconds - seconds_since(start_) : 3600;
    pollfd polled{fd_, POLLIN, 0};
    const int ready = poll(&polled, 1, static_cast<int>(std::clamp(left, 0.0, 3600.0) * 1000));
    if (ready < 0 && errno == EINTR) return true;
    if (ready == 0 && options_.seconds > 0) {
      report_.timed_out = true;
      return false;
    }
    std::array<char, 65536> buffer;
    const ssize_t got = read(fd_, buffer.data(), buffer.size());
    if (got <= 0) return got < 0 && errno == EINTR;
    text_.append(buffer.data(), static_cast<size_t>(got));
    for (size_t end; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1)) {
      take(parse_json(text_.substr(0, end), "a message of the checks"));
    }
    return true;
  }

  void take(const Json& message) {
    if (message.contains("step")) {
      step_ = &plan_.steps[message["step"].get<size_t>()];
      left_ = message["left"].get<std::set<int>>();
      if (options_.announce) options_.announce(*step_);
      return;
    }
    if (message.contains("end")) {
      step_ = nullptr;
      return;
    }
    report_.results.push_back({step_->number,
                               printable(message["check"].get<std::string>()),
                               {.kind = kind_of(message["kind"].get<std::string>(), "check"),
                                .text = printable(message["text"].get<std::string>()),
                                .code = message["code"].get<int>(),
                                .unusable = message["unusable"].get<bool>(),
                                .called = message["called"].get<std::vector<std::string>>()}});
  }

  void close_open_step() {
    const Outcome outcome =
        report_.timed_out
            ? failed("watchdog: Script timed out while executing \"{}\" (line {} did not end within {} s of the run)",
                     printable(step_->text), step_->number, options_.seconds)
            : failed("`{}` (line {}) crashed", printable(step_->text), step_->number);
    report_.results.push_back({step_->number, printable(step_->text), outcome});
  }

  const Plan& plan_;
  const CheckOptions& options_;
  int fd_;
  pid_t child_;
  Clock::time_point start_ = Clock::now();
  const Step* step_ = nullptr;
  std::set<int> left_;  ///< running before the current step began
  std::string text_;
  Report report_;
};

}  // namespace

std::vector<const Result*> Report::failures() const { return of_kinds(results, {Outcome::Kind::fail}); }

std::vector<const Result*> Report::not_checked() const {
  return of_kinds(results, {Outcome::Kind::skipped, Outcome::Kind::not_checked});
}

void require_all_checked(Report& report) {
  const auto left = report.not_checked();
  if (left.empty() && report.checked() > 0) return;
  const std::string text =
      report.results.empty() ? std::string("no line applies to this host")
                             : fmt::format("{} of {} not checked: {}", left.size(), report.results.size(), list(left));
  report.results.push_back({0, "--require-all", failed("--require-all: {}", text)});
}

double watchdog_seconds(double requested, const Plan& plan) {
  if (requested >= 0) return requested;
  const auto timeout = plan.variables.find("TIMEOUT");
  if (timeout != plan.variables.end()) return parse_number(timeout->second, "TIMEOUT");
  const bool measures = std::ranges::any_of(plan.steps, [](const Step& step) {
    const auto known = std::ranges::find(known_checks(), step.name, &KnownCheck::name);
    return step.applies && known != known_checks().end() && known->measures;
  });
  return measures ? 500 : 30;
}

bool has_gpu(const Machine& machine) {
  const std::string folder = "/sys/bus/pci/devices";
  for (const std::string& device : machine.list(folder)) {
    const std::string vendor = machine.read(folder + "/" + device + "/vendor").value_or("");
    const std::string kind = machine.read(folder + "/" + device + "/class").value_or("");
    const bool maker = vendor.starts_with("0x10de") || vendor.starts_with("0x1002");
    // 0x0300 VGA, 0x0302 3D controller, 0x0380 display, 0x1200 accelerator (AMD Instinct)
    if (maker && (kind.starts_with("0x03") || kind.starts_with("0x12"))) return true;
  }
  return machine.root.empty() && (!find_program("nvidia-smi").empty() || !find_program("rocm-smi").empty() ||
                                  nvml::is_there(machine.nvml_library));
}

Report run_plan(const Plan& plan, const Machine& machine, const CheckOptions& options) {
  std::array<int, 2> ends{};
  // Close on exec: a daemon that a repair starts must not hold the pipe open.
  const bool made = pipe2(ends.data(), O_CLOEXEC) == 0;
  require(made, ErrorKind::io, "cannot create a pipe: {}", std::strerror(errno));
  const pid_t child = fork();
  require(child >= 0, ErrorKind::io, "cannot start the checks: {}", std::strerror(errno));
  if (child == 0) {
    close(ends[0]);
    run_in_child(plan, machine, options.all, ends[1]);
  }
  setpgid(child, child);
  close(ends[1]);
  Report report = Watch(plan, options, ends[0], child, machine.host).finish();
  close(ends[0]);
  return report;
}

int exit_code(const Report& report, bool all) {
  if (report.timed_out) return 142;
  const auto failures = report.failures();
  if (all) return static_cast<int>(std::min<size_t>(failures.size(), 125));
  return failures.empty() ? 0 : std::clamp(failures.front()->outcome.code, 1, 255);
}

std::string one_line_per_node(const Report& report) {
  std::string text;
  for (const Result* result : report.failures()) {
    text += fmt::format("{} | ERROR: nhc: Health check failed: {}\n", report.host, result->outcome.text);
  }
  if (!text.empty()) return text;
  const auto left = report.not_checked();
  if (report.results.empty()) return report.host + " | Not checked: no line applies to this host\n";
  if (report.checked() == 0) return fmt::format("{} | Not checked: {}\n", report.host, list(left));
  if (left.empty()) return report.host + " | Healthy\n";
  return fmt::format("{} | Healthy ({} of {} not checked: {})\n", report.host, left.size(), report.results.size(),
                     list(left));
}

Json to_json(const Report& report) {
  // If nothing was checked no fault was found, but the node is not healthy.
  const bool unknown = report.healthy() && report.checked() == 0;
  Json document{{"host", report.host},
                {"healthy", unknown ? Json() : Json(report.healthy())},
                {"result", unknown            ? "not checked"
                           : report.healthy() ? "healthy"
                                              : "failed"},
                {"checked", report.checked()},
                {"not_checked", report.not_checked().size()},
                {"slurm", report.slurm},
                {"timed_out", report.timed_out},
                {"seconds", report.seconds},
                {"results", Json::array()}};
  if (report.slurm_failed) document["slurm_failed"] = true;
  for (const Result& result : report.results) {
    document["results"].push_back({{"line", result.line},
                                   {"check", result.check},
                                   {"outcome", kKinds[static_cast<int>(result.outcome.kind)]},
                                   {"text", result.outcome.text}});
    if (result.outcome.kind == Outcome::Kind::fail) document["results"].back()["code"] = result.outcome.code;
    if (result.outcome.unusable) document["results"].back()["unusable"] = true;
  }
  return document;
}

Report report_from_json(const Json& document, const std::string& where) {
  try {
    const auto text_of = [](const Json& text) { return printable(text.get<std::string>()); };
    Report report{text_of(document.at("host")),           {},
                  document.at("timed_out").get<bool>(),   document.at("seconds").get<double>(),
                  printable(document.value("slurm", "")), document.value("slurm_failed", false)};
    for (const Json& entry : document.at("results")) {
      report.results.push_back({entry.at("line").get<int>(),
                                text_of(entry.at("check")),
                                {.kind = kind_of(entry.at("outcome").get<std::string>(), where),
                                 .text = text_of(entry.at("text")),
                                 .code = entry.value("code", 1),
                                 .unusable = entry.value("unusable", false)}});
    }
    return report;
  } catch (const Json::exception& e) {
    fail(ErrorKind::data, "{}: not a health report: {}", where, e.what());
  }
}

std::optional<Report> last_report(const std::string& path, const std::string& boot_id) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  try {
    const Json document = read_json(path);
    if (document.value("boot_id", "") != boot_id) return std::nullopt;
    return report_from_json(document.value("report", Json::object()), path);
  } catch (const std::exception& e) {
    // A bad file must not block the checks of a node forever.
    log::warning("ignoring the last result: {}", e.what());
    return std::nullopt;
  }
}

void save_report(const std::string& path, const std::string& boot_id, const Report& report) {
  write_text(path, dump_json(Json{{"boot_id", boot_id}, {"report", to_json(report)}}, 2) + "\n");
}

std::string this_boot_id() {
  std::string text = read_text("/proc/sys/kernel/random/boot_id");
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

bool run_in_background(const std::string& path, const std::function<void()>& body) {
  const std::string lock = path + ".lock";
  const int fd = open_for_writing(lock, O_RDWR | O_CREAT);
  require(fd >= 0, ErrorKind::io, "cannot open {}: {}", lock, std::strerror(errno));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    close(fd);
    return false;
  }
  const pid_t child = fork();
  require(child >= 0, ErrorKind::io, "cannot start the background run: {}", std::strerror(errno));
  if (child == 0) {
    setsid();
    if (fork() != 0) _exit(0);  // double fork: no process has to wait for the grandchild
    const int null = open("/dev/null", O_RDWR);
    for (int stream = 0; stream < 3; ++stream) dup2(null, stream);
    try {
      body();
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  close(fd);  // the grandchild's copy keeps the lock
  waitpid(child, nullptr, 0);
  return true;
}

}  // namespace trireme::health
