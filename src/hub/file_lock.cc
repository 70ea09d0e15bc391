#include "hub/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/error.h"

namespace trireme::hub {
namespace {

constexpr auto kPause = std::chrono::milliseconds(100);

/// Whether the open file still has that name: others may have removed it before it was locked.
bool is_named(int fd, const std::string& path) {
  struct stat open_one {};
  struct stat named {};
  return fstat(fd, &open_one) == 0 && stat(path.c_str(), &named) == 0 && open_one.st_ino == named.st_ino &&
         open_one.st_dev == named.st_dev;
}

/// A descriptor that holds the lock, or -1 if another process does.
int try_lock(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
  require(fd >= 0, ErrorKind::io, "cannot create the lock {}: {}", path, std::strerror(errno));
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
    if (is_named(fd, path)) return fd;
    close(fd);
    return -1;
  }
  const int reason = errno;
  close(fd);
  require(reason == EWOULDBLOCK || reason == EINTR, ErrorKind::io,
          "cannot lock {}: {}; put the cache on a file system with locks: set HF_HUB_CACHE to a folder there", path,
          std::strerror(reason));
  return -1;
}

}  // namespace

FileLock::FileLock(const std::string& path, const std::function<void()>& waiting) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  require(!error, ErrorKind::io, "cannot create {}: {}; set HF_HOME or HF_HUB_CACHE to another place for the cache",
          std::filesystem::path(path).parent_path().string(), error.message());
  while ((fd_ = try_lock(path)) < 0) {
    waiting();
    std::this_thread::sleep_for(kPause);
  }
}

FileLock::~FileLock() { close(fd_); }

}  // namespace trireme::hub
