#include "base/log.h"

#include <fcntl.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log_form.h"
#include "base/opened_file.h"
#include "base/printable.h"

namespace trireme::log {
namespace {

/// The file of add_file(). A full one is moved to NAME.1, so that the two have at most twice the limit. Like the
/// console it must not stop training: what cannot be written is lost.
class FileCopy {
 public:
  /// Begins with what was said before, up to a limit. Throws Error::io.
  void open(const std::string& path) {
    const int fd = open_for_writing(path, kFlags);
    require(fd >= 0, ErrorKind::io, "cannot open log file {}: {}", path, std::strerror(errno));
    take(fd, path);
    write(std::exchange(early_, {}));
  }
  void write(std::string_view text) {
    if (path_.empty() && early_.size() + text.size() <= kMostEarlyBytes) early_ += text;
    if (fd_ < 0) return;
    if (size_ > 0 && size_ + text.size() > kMostBytes) {
      rename(path_.c_str(), (path_ + ".1").c_str());
      take(::open(path_.c_str(), kFlags | O_CLOEXEC | O_NOFOLLOW, 0644), path_);
    }
    if (::write(fd_, text.data(), text.size()) > 0) size_ += text.size();
  }

 private:
  static constexpr size_t kMostEarlyBytes = size_t{256} << 10, kMostBytes = size_t{32} << 20;
  static constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND;

  void take(int fd, const std::string& path) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
    path_ = path;
    const off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    size_ = end > 0 ? static_cast<size_t>(end) : 0;
  }

  int fd_ = -1;
  std::string path_, early_;
  size_t size_ = 0;
};

struct State {
  std::shared_ptr<spdlog::logger> logger;
  FileCopy file;
  Identity identity;
  std::mutex mutex;  // messages and the status line take turns
  std::function<void(std::string_view)> listener, error_listener;
  std::string status;
  LineForm form = LineForm::plain;
  const bool terminal = isatty(STDERR_FILENO) == 1;
  State() {
    auto console = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
    logger = std::make_shared<spdlog::logger>("trireme", std::move(console));
    logger->set_pattern("%^%v%$");
    logger->flush_on(spdlog::level::info);
    // A full disk or a closed terminal must not stop training.
    logger->set_error_handler([](const std::string&) {});
  }
};

State& state() {  // the process has one standard error stream, so it has one log
  static State instance;
  return instance;
}

thread_local const Identity* identity_of_thread = nullptr;

constexpr std::string_view kEraseLine = "\r\x1b[K";

constexpr size_t kMostMessageBytes = size_t{64} << 10;  // tables and lists of whole jobs are below it

/// A closed terminal is not an error.
void write_to_terminal(std::string_view text) { static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size())); }

size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

/// "2026-01-31T23:59:59.123Z"
std::string time_text() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  return fmt::format("{}.{:03}Z", text.data(), since % 1000);
}

/// As syslog numbers them; journald knows them by the same numbers.
int syslog_priority(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::err:
      return 3;
    case spdlog::level::warn:
      return 4;
    case spdlog::level::debug:
      return 7;
    default:
      return 6;
  }
}

const char* level_name(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::err:
      return "error";
    case spdlog::level::warn:
      return "warning";
    case spdlog::level::debug:
      return "debug";
    default:
      return "info";
  }
}

/// The line as standard error gets it; message: without the words for rank and level.
std::string in_form(LineForm form, spdlog::level::level_enum level, const std::string& line,
                    const std::string& message) {
  if (form == LineForm::plain) return line;
  const std::string time = time_text();
  if (form == LineForm::json) {
    return dump_json({{"time", time},
                      {"level", level_name(level)},
                      {"priority", syslog_priority(level)},
                      {"rank", identity().rank},
                      {"message", message}});
  }
  std::string timed = time + " " + line;
  for (size_t at = time.size(); (at = timed.find('\n', at)) != std::string::npos; at += time.size() + 2)
    timed.insert(at + 1, time + " ");
  return timed;
}

/// Writes a message above the status line, if there is one.
void emit(spdlog::level::level_enum level, std::string_view prefix, std::string_view word, std::string_view message) {
  const std::lock_guard lock(state().mutex);
  if (!state().logger->should_log(level)) return;
  const bool above_status = !state().status.empty();
  const std::string said = printable(message, kMostMessageBytes);
  const std::string line = fmt::format("{}{}{}", prefix, word, said);
  if (above_status) write_to_terminal(kEraseLine);
  if (state().error_listener && level == spdlog::level::err) state().error_listener(line);
  state().logger->log(level, "{}", in_form(state().form, level, line, said));
  state().file.write(fmt::format("{} {}\n", time_text(), line));
  if (state().listener) state().listener(line);
  if (above_status) write_to_terminal(state().status);
}

const char* word_for(Level level) {
  return level == Level::warning ? "warning: " : level == Level::error ? "error: " : "";
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    default:
      return spdlog::level::err;
  }
}

}  // namespace

void set_identity(int rank, int size, std::string_view host) {
  state().identity = {rank, size > 1 ? fmt::format("{} {}", host, rank) : std::string()};
}

const Identity& identity() { return identity_of_thread ? *identity_of_thread : state().identity; }

ThreadIdentity::ThreadIdentity(Identity own) : own_(std::move(own)), around_(identity_of_thread) {
  identity_of_thread = &own_;
}

ThreadIdentity::~ThreadIdentity() { identity_of_thread = around_; }

void set_level(Level lowest) { state().logger->set_level(to_spdlog(lowest)); }

void add_file(std::string_view path) {
  const std::lock_guard lock(state().mutex);
  state().file.open(std::string(path));
}

void set_line_form(LineForm form) {
  set_status("");
  const std::lock_guard lock(state().mutex);
  state().form = form;
}

void set_status(std::string_view line) {
  if (!state().terminal) return;
  const std::lock_guard lock(state().mutex);
  if (state().form == LineForm::json) return;
  const std::string clean = printable(line.substr(0, kMostMessageBytes));
  const std::string_view shown = std::string_view(clean).substr(0, terminal_width() - 1);
  if (shown.empty() && state().status.empty()) return;
  state().status = shown;
  write_to_terminal(fmt::format("{}{}", kEraseLine, shown));
}

void set_listener(std::function<void(std::string_view)> listener) {
  const std::lock_guard lock(state().mutex);
  state().listener = std::move(listener);
}

void set_error_listener(std::function<void(std::string_view)> listener) {
  const std::lock_guard lock(state().mutex);
  state().error_listener = std::move(listener);
}

bool has_status() { return state().terminal && state().form != LineForm::json; }

void write(Level level, std::string_view message) {
  const std::string& name = identity().name;
  emit(to_spdlog(level), name.empty() ? std::string() : fmt::format("[{}] ", name), word_for(level), message);
}

void write_once(Level level, std::string_view message) {
  if (identity().rank == 0) emit(to_spdlog(level), "", word_for(level), message);
}

void write_first(Level level, const std::string& message) {
  static std::mutex mutex;
  static std::set<std::string> written;
  {
    const std::lock_guard lock(mutex);
    if (identity().rank != 0 || !written.insert(message).second) return;
  }
  write_once(level, message);
}

}  // namespace trireme::log
