#include "base/opened_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

constexpr auto kWriterWait = std::chrono::seconds(2);  // a program that was started together with this one needs less
constexpr auto kWriterPause = std::chrono::milliseconds(5);

bool is_null_device(const struct stat& info) { return S_ISCHR(info.st_mode) && info.st_rdev == makedev(1, 3); }

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

/// Closes the descriptor before it throws.
struct stat stat_of(int fd, const std::string& path) {
  struct stat info {};
  if (fstat(fd, &info) == 0) return info;
  const int reason = errno;
  close(fd);
  fail(ErrorKind::io, "cannot stat {}: {}", path, std::strerror(reason));
}

void require_kind(bool fits, int fd, const std::string& path, mode_t mode) {
  if (fits) return;
  close(fd);
  fail(ErrorKind::io, "{} is {}, expected a file", path, kind_of(mode));
}

}  // namespace

OpenedFile::OpenedFile(const std::string& path, Accepts accepts)
    : path_(path), fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {  // or a pipe would wait
  const int reason = errno;
  require(fd_ >= 0, ErrorKind::io, "cannot open {}: {}", path, std::strerror(reason));
  const struct stat info = stat_of(fd_, path);
  regular_ = S_ISREG(info.st_mode);
  const bool pipe = S_ISFIFO(info.st_mode);
  require_kind(regular_ || is_null_device(info) || (pipe && accepts == Accepts::pipes_too), fd_, path, info.st_mode);
  if (regular_) size_ = static_cast<uint64_t>(info.st_size);
  try {
    if (pipe) wait_for_writer();
  } catch (...) {
    close(fd_);
    throw;
  }
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) & ~O_NONBLOCK);
}

OpenedFile::~OpenedFile() { close(fd_); }

/// Without a writer a read returns 0; with one that has not written yet, EAGAIN.
void OpenedFile::wait_for_writer() {
  const auto end = std::chrono::steady_clock::now() + kWriterWait;
  while (true) {
    char byte = 0;
    const ssize_t n = ::read(fd_, &byte, 1);
    if (n == 1) first_ = byte;
    if (n == 1 || (n < 0 && errno == EAGAIN)) return;
    require(std::chrono::steady_clock::now() < end, ErrorKind::io,
            "{} is a pipe without a writer; start the program that writes into it, or name a file", path_);
    std::this_thread::sleep_for(kWriterPause);
  }
}

size_t OpenedFile::read(char* to, size_t size) {
  if (first_ && size > 0) {
    *to = *std::exchange(first_, std::nullopt);
    return 1;
  }
  while (true) {
    const ssize_t n = ::read(fd_, to, size);
    if (n < 0 && errno == EINTR) continue;
    const int reason = errno;
    require(n >= 0, ErrorKind::io, "cannot read {}: {}", path_, std::strerror(reason));
    return static_cast<size_t>(n);
  }
}

int open_for_writing(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644);
  if (fd < 0) {
    // A pipe without a reader: not a file either way.
    require(errno != ENXIO, ErrorKind::io, "{} is a pipe or a device, expected a file", path);
    return fd;
  }
  const struct stat info = stat_of(fd, path);
  require_kind(S_ISREG(info.st_mode), fd, path, info.st_mode);
  return fd;
}

}  // namespace trireme
