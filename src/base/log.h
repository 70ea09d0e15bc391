#pragma once
// Log with levels. Rank 0 writes information to stderr; every rank writes warnings and errors, prefixed with its name:
// host and rank once set_identity() was called, or the thread's own identity. Data that a user pipes (samples, tables,
// JSON) goes to stdout, not through here.

#include <fmt/core.h>

#include <functional>
#include <string>
#include <string_view>

namespace trireme::log {

enum class Level { debug, info, warning, error };

/// Who writes a message.
struct Identity {
  int rank = 0;      ///< rank 0 writes messages that appear once for all ranks
  std::string name;  ///< in brackets before the messages of every rank; empty: no prefix
};
/// For all threads without their own identity: "HOST RANK". Called before other threads log. A job of one rank needs no
/// name and does not call this.
void set_identity(int rank, int size, std::string_view host);
/// The calling thread's. A thread that a rank starts gets its starter's: see ThreadIdentity.
const Identity& identity();

/// While it exists, the calling thread writes as `own`: for ranks that are threads of one process. Must be destroyed on
/// the thread that made it, the inner one first.
class ThreadIdentity {
 public:
  explicit ThreadIdentity(Identity own);
  ~ThreadIdentity();
  ThreadIdentity(const ThreadIdentity&) = delete;
  ThreadIdentity& operator=(const ThreadIdentity&) = delete;

 private:
  const Identity own_;
  const Identity* around_;
};

void set_level(Level lowest);
/// A line kept below the messages of a terminal (a progress bar), cut to its width; empty removes it. Does nothing if
/// standard error is not a terminal.
void set_status(std::string_view line);
/// True if set_status() shows something.
bool has_status();
/// Also append every message of this rank to the file. Throws Error::io.
void add_file(std::string_view path);

/// Every shown message also goes to `listener`, as on the console, from the thread that writes it; the listener must
/// neither wait nor log. Empty: removes the listener.
void set_listener(std::function<void(std::string_view)> listener);
/// The same for errors only, called before the error is shown. Called once, before other threads log.
void set_error_listener(std::function<void(std::string_view)> listener);

void write(Level level, std::string_view message);       ///< on every rank
void write_once(Level level, std::string_view message);  ///< on rank 0 only
/// On rank 0 only, each message once in a process: what is worth saying of a file that several parts open.
void write_first(Level level, const std::string& message);

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
}
/// Rank 0 only: facts about the job.
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write_once(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
/// Every rank: facts about this rank.
template <class... Args>
void info_all(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::warning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace trireme::log
