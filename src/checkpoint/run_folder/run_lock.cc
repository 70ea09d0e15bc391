#include "checkpoint/run_folder/run_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/host.h"
#include "base/json_fields.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/opened_file.h"
#include "comm/launcher.h"

namespace trireme {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

int64_t count_in(const char* name) {
  const std::string text = variable(name);
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  return end == text.c_str() ? 0 : value;
}

/// Nothing: the last owner let go of the folder, or its note cannot be understood.
std::optional<LockOwner> read_owner(int fd, const std::string& path) {
  std::string text(4096, '\0');
  const ssize_t n = pread(fd, text.data(), text.size(), 0);
  require(n >= 0, ErrorKind::io, "cannot read {}: {}", path, std::strerror(errno));
  text.resize(static_cast<size_t>(n));
  if (text.empty()) return {};
  try {
    const Json json = parse_json(text, path);
    return LockOwner{json_field<std::string>(json, "host", path), json_field<std::string>(json, "boot_id", path),
                     json_field<int64_t>(json, "pid", path), json_field<std::string>(json, "job", path),
                     json_field<int64_t>(json, "attempt", path)};
  } catch (const Error& e) {
    log::warning("{}: cannot read its owner ({})", path, e.what());
    return {};
  }
}

bool same_machine(const LockOwner& a, const LockOwner& b) {
  return a.host == b.host || (!a.boot_id.empty() && a.boot_id == b.boot_id);
}

bool later_attempt(const LockOwner& mine, const LockOwner& last) {
  return !mine.job.empty() && mine.job == last.job && mine.attempt > last.attempt;
}

enum class LockState { free, taken, unknown };

LockState take_lock(int fd, const std::string& path) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(fd, F_OFD_SETLK, &lock) == 0) return LockState::free;
  if (errno == EAGAIN || errno == EACCES) return LockState::taken;
  // Some network file systems have no locks: then only the note identifies the owner.
  require(errno == ENOLCK || errno == EOPNOTSUPP || errno == EINVAL || errno == ENOSYS, ErrorKind::io,
          "cannot lock {}: {}", path, std::strerror(errno));
  return LockState::unknown;
}

int open_lock(const std::string& path) {
  const int fd = open_for_writing(path, O_RDWR | O_CREAT);
  require(fd >= 0, ErrorKind::io, "cannot open {}: {}", path, std::strerror(errno));
  return fd;
}

bool write_all(int fd, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = pwrite(fd, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) done += static_cast<size_t>(n);
  }
  return true;
}

void write_owner(int fd, const LockOwner& owner, const std::string& path) {
  const bool written = ftruncate(fd, 0) == 0 && write_all(fd, lock_note(owner)) && fsync(fd) == 0;
  require(written, ErrorKind::io, "cannot write {}: {}", path, std::strerror(errno));
}

bool may_take(LockState state, const LockOwner& mine, const std::optional<LockOwner>& last) {
  if (!last) return state != LockState::taken;
  if (later_attempt(mine, *last)) return true;
  if (state == LockState::free) return same_machine(mine, *last);
  // Without locks, only a dead process on this machine proves that the folder is unused.
  return state == LockState::unknown && mine.host == last->host && mine.boot_id == last->boot_id &&
         kill(static_cast<pid_t>(last->pid), 0) != 0 && errno == ESRCH;
}

std::string describe(const std::optional<LockOwner>& owner) {
  if (!owner) return "an unknown process";
  return fmt::format(
      "process {} on {}{}", owner->pid, owner->host,
      owner->job.empty() ? std::string() : fmt::format(" (job {}, attempt {})", owner->job, owner->attempt));
}

}  // namespace

LockOwner this_owner() {
  LockOwner owner{host_name(), boot_id(), getpid(), variable(kJobIdVariable), count_in(kAttemptVariable)};
  if (owner.job.empty()) {
    owner.job = variable("SLURM_JOB_ID");
    // The first is Slurm's; the second has been ours.
    owner.attempt = std::max(count_in("SLURM_RESTART_COUNT"), count_in("SLURM_RESTART_CNT"));
  }
  return owner;
}

std::string lock_note(const LockOwner& owner) {
  return dump_json(Json{{"host", owner.host},
                        {"boot_id", owner.boot_id},
                        {"pid", owner.pid},
                        {"job", owner.job},
                        {"attempt", owner.attempt}}) +
         "\n";
}

bool is_held_by(const std::string& run_dir, const std::string& note) {
  return read_text_if_there(run_dir + "/lock") == note;
}

RunLock::RunLock(const std::string& run_dir, const LockOwner& owner, bool take_over, std::string_view advice,
                 std::string_view dir_option)
    : path_(run_dir + "/lock") {
  std::error_code error;
  std::filesystem::create_directories(run_dir, error);
  require(!error, ErrorKind::io, "cannot create run folder {}: {}", run_dir, error.message());
  int fd = open_lock(path_);
  try {
    const LockState state = take_lock(fd, path_);
    const auto last = read_owner(fd, path_);
    if (!may_take(state, owner, last)) {
      const std::string of_a_run = fmt::format(
          "wait for it or stop it, use another {}, or set --run.take-over if it is certain that it is no longer "
          "running",
          dir_option);
      require(take_over, ErrorKind::locked, "run folder {} belongs to {}{}; {}", run_dir, describe(last),
              state == LockState::taken ? ", which is running"
                                        : "; it cannot be determined from here whether it is still running",
              advice.empty() ? of_a_run : advice);
      log::warning("taking over run folder {} from {}", run_dir, describe(last));
    }
    if (state == LockState::taken) {
      // A new file in its place: the holder keeps a lock on nothing and notices at its next check().
      close(std::exchange(fd, -1));
      write_text(path_, "");
      fd = open_lock(path_);
      require(take_lock(fd, path_) != LockState::taken, ErrorKind::locked,
              "run folder {} was taken by another process just now", run_dir);
    }
    write_owner(fd, owner, path_);
    note_ = lock_note(owner);
  } catch (...) {
    if (fd >= 0) close(fd);
    throw;
  }
  fd_ = fd;
}

bool RunLock::is_ours() const {
  // Opened, so that a network file system asks its server which file has the name now.
  const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  struct stat held {
  }, named{};
  const bool same =
      fstat(fd_, &held) == 0 && fstat(fd, &named) == 0 && held.st_ino == named.st_ino && held.st_dev == named.st_dev;
  // Where locks do not reach, the new owner writes its note into the same file.
  std::string note(note_.size() + 1, '\0');
  const ssize_t n = pread(fd, note.data(), note.size(), 0);
  close(fd);
  return same && n == static_cast<ssize_t>(note_.size()) && note.starts_with(note_);
}

void RunLock::check() const {
  const std::string run_dir = std::filesystem::path(path_).parent_path().string();
  std::error_code error;
  require(std::filesystem::exists(run_dir, error), ErrorKind::io,
          "the run folder {} no longer exists: it was deleted, renamed or unmounted during training; restore it and "
          "start again",
          run_dir);
  require(std::filesystem::exists(path_, error), ErrorKind::io,
          "{} no longer exists: it was deleted during training; start again to resume from the last checkpoint", path_);
  require(is_ours(), ErrorKind::locked,
          "{} no longer belongs to this process: another process has taken over the run folder", path_);
}

RunLock::~RunLock() {
  // An empty note means that the folder was released.
  if (is_ours() && ftruncate(fd_, 0) != 0) log::warning("cannot clear {}: {}", path_, std::strerror(errno));
  close(fd_);
}

}  // namespace trireme
