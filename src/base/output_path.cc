#include "base/output_path.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/time.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as Linux
constexpr auto kReaderPause = std::chrono::milliseconds(5);

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

/// The number of this process's descriptor that the link in /proc stands for; -1: another process's.
int own_descriptor(const fs::path& folder, const std::string& name) {
  std::error_code error;
  if (folder != fs::canonical("/proc/self/fd", error) && folder != fs::canonical("/proc/thread-self/fd", error))
    return -1;
  int number = -1;
  std::from_chars(name.data(), name.data() + name.size(), number);
  return number;
}

bool is_stream(const fs::path& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return false;
  const char* const kind = S_ISDIR(info.st_mode)    ? "a folder"
                           : S_ISSOCK(info.st_mode) ? "a socket"
                           : S_ISBLK(info.st_mode)  ? "a disk"
                                                    : nullptr;
  require(!kind, ErrorKind::io, "{} is {}, expected a file, a pipe or a character device", path.string(),
          kind ? kind : "");
  return !S_ISREG(info.st_mode);
}

}  // namespace

OutputTarget output_target(const std::string& path) {
  fs::path at = path;
  for (int links = 0; links < kMostLinks; ++links) {
    std::error_code error;
    const fs::path folder = fs::canonical(folder_of(at), error);
    if (folder.string().starts_with("/proc/"))  // a process's open file: not a name that could be replaced
      return {at.string(), true, own_descriptor(folder, at.filename().string())};
    if (error || !fs::is_symlink(fs::symlink_status(folder / at.filename(), error)))
      return {at.string(), is_stream(at), -1};
    const fs::path to = fs::read_symlink(folder / at.filename(), error);
    at = to.is_absolute() ? to : folder / to;
  }
  fail(ErrorKind::io, "{} is a circle of symbolic links; name a file", path);
}

int open_stream(const OutputTarget& stream, double seconds) {
  const char* const path = stream.path.c_str();
  if (stream.descriptor >= 0) {
    std::fflush(stdout);  // what this program has printed comes before
    const int copy = fcntl(stream.descriptor, F_DUPFD_CLOEXEC, 3);
    require(copy >= 0, ErrorKind::io, "cannot write to {}: {}", path, std::strerror(errno));
    return copy;
  }
  // Without a reader a pipe cannot be opened, or the call would wait for one.
  constexpr int kFlags = O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  int fd = open(path, kFlags);
  for (const auto start = Clock::now(); fd < 0 && errno == ENXIO && seconds_since(start) < seconds;) {
    std::this_thread::sleep_for(kReaderPause);
    fd = open(path, kFlags);
  }
  require(fd >= 0 || errno != ENXIO, ErrorKind::io,
          "{} is a pipe that no program reads; start its reader first, or name a file", path);
  require(fd >= 0, ErrorKind::io, "cannot open {}: {}", path, std::strerror(errno));
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return fd;
}

std::string why_no_output(const std::string& path) {
  if (path.empty()) return "the value is empty; is a shell variable not set?";
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return fmt::format("{} is a folder, expected the name of a file", path);
  OutputTarget target;
  try {
    target = output_target(path);
  } catch (const Error& error) {
    return error.what();
  }
  if (target.descriptor >= 0) {
    const int flags = fcntl(target.descriptor, F_GETFL);
    const bool writes = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
    return writes ? "" : fmt::format("cannot write {}: it is not open for writing", path);
  }
  if (target.is_stream)
    return access(path.c_str(), W_OK) == 0 ? "" : fmt::format("cannot write {}: {}", path, std::strerror(errno));
  const std::string folder = folder_of(target.path).string();
  if (!fs::exists(folder, ignored))
    return fmt::format("cannot write {}: folder {} is missing; create it", path, folder);
  if (!fs::is_directory(folder, ignored)) return fmt::format("cannot write {}: {} is not a folder", path, folder);
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    return fmt::format("cannot write {}: folder {}: {}", path, folder, std::strerror(errno));
  return "";
}

}  // namespace trireme
