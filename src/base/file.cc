#include "base/file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/host.h"
#include "base/opened_file.h"
#include "base/output_path.h"

namespace trireme {
namespace {

std::string folder_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

/// Also a process's file in /proc when it has ended, or belongs to another user.
bool is_missing(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  char byte = 0;
  int reason = fd < 0 ? errno : 0;
  if (fd >= 0 && ::read(fd, &byte, 1) < 0) reason = errno;
  if (fd >= 0) close(fd);
  return reason == ENOENT || reason == ENOTDIR || reason == ESRCH ||
         ((reason == EACCES || reason == EPERM) && path.starts_with("/proc/"));
}

constexpr size_t kLongestName = 255;

/// The path's last name, cut where a file system has no room for it, and the suffix.
std::string with_suffix(std::string path, const std::string& suffix) {
  const size_t name = path.rfind('/') + 1;  // 0 without one
  if (path.size() - name + suffix.size() > kLongestName)
    path.resize(std::max(name + kLongestName, suffix.size()) - suffix.size());
  return path + suffix;
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const OpenedFile file(path);
  size_ = file.size();
  if (size_ == 0) return;
  void* data = mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.fd(), 0);
  require(data != MAP_FAILED, ErrorKind::io, "cannot map {} ({} bytes): {}", path, size_, std::strerror(errno));
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<std::byte*>(data_), size_);
}

AtomicFile::AtomicFile(std::string path, unsigned mode, Flush flush) : path_(std::move(path)), flush_(flush) {
  OutputTarget target = output_target(path_);
  if (target.is_stream) {
    fd_ = open_stream(target, flush == Flush::to_disk ? kReaderSeconds : 0);
    return;
  }
  path_ = std::move(target.path);
  do {  // a killed process may have left the name that this one gives
    temporary_ = with_suffix(path_, temporary_suffix());
    fd_ = create_new(temporary_, mode);
  } while (fd_ < 0 && errno == EEXIST);
  require(fd_ >= 0, ErrorKind::io, "cannot write {}: {}", path_, std::strerror(errno));
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(fd_, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {  // standard output that another program has made non-blocking
      pollfd ready{fd_, POLLOUT, 0};
      poll(&ready, 1, -1);
      continue;
    }
    require(n > 0, ErrorKind::io, "cannot write {} ({} of {} bytes written): {}", written(), done, bytes.size(),
            reason_of_write(errno));
    done += static_cast<size_t>(n);
  }
}

void AtomicFile::write_at(size_t offset, std::span<const std::byte> bytes) {
  // Waits for the disk, so that a caller who counts pieces sees its speed; fsync reports its errors.
  constexpr size_t kLargePiece = size_t{1} << 20;
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = pwrite(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    require(n > 0, ErrorKind::io, "cannot write {} at offset {} ({} of {} bytes written): {}", written(), offset, done,
            bytes.size(), reason_of_write(errno));
    done += static_cast<size_t>(n);
  }
  if (bytes.size() < kLargePiece) return;
  constexpr unsigned kAndWait = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  static_cast<void>(sync_file_range(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes.size()), kAndWait));
}

void AtomicFile::commit() {
  const bool stream = temporary_.empty(), durable = flush_ == Flush::to_disk && !stream;
  const bool flushed = !durable || fsync(fd_) == 0;
  require(flushed, ErrorKind::io, "cannot flush {} to disk: {}", temporary_, reason_of_write(errno));
  const int closed = close(std::exchange(fd_, -1));
  if (closed != 0 || (!stream && rename(temporary_.c_str(), path_.c_str()) != 0)) {
    const int reason = errno;
    if (!stream) unlink(temporary_.c_str());
    fail(ErrorKind::io, "cannot publish {}: {}", path_, reason_of_write(reason));
  }
  if (durable) sync_folder(folder_of(path_));
}

int create_new(const std::string& path, unsigned mode) {
  return open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
}

std::string temporary_suffix() {
  static std::atomic<uint64_t> count = 0;
  return fmt::format(".tmp-{}-{}-{}", host_name(), getpid(), ++count);
}

std::string reason_of_write(int error) {
  struct rlimit limit {};
  if (error != EFBIG || getrlimit(RLIMIT_FSIZE, &limit) != 0) return std::strerror(error);
  if (limit.rlim_cur == RLIM_INFINITY) return fmt::format("{}, for this file system", std::strerror(error));
  return fmt::format(
      "{}: this process may write {} bytes per file (`ulimit -f`, or a limit of the batch system); raise it",
      std::strerror(error), limit.rlim_cur);
}

std::string read_text(const std::string& path, size_t max_bytes) {
  OpenedFile file(path, Accepts::pipes_too);
  require(file.size() <= max_bytes, ErrorKind::data, "{} has {} bytes, but at most {} are supported", path, file.size(),
          max_bytes);
  std::string text;
  char buffer[1 << 16];
  while (const size_t n = file.read(buffer, sizeof buffer)) {  // not by size: pipes and /proc files have none
    text.append(buffer, n);
    require(text.size() <= max_bytes, ErrorKind::data, "{} has more than {} bytes, the supported maximum", path,
            max_bytes);
  }
  return text;
}

std::string read_text_if_there(const std::string& path) {
  try {
    return read_text(path);
  } catch (const Error&) {
    if (!is_missing(path)) throw;
    return {};
  }
}

void write_text(const std::string& path, std::string_view text, unsigned mode, Flush flush) {
  AtomicFile file(path, mode, flush);
  file.write(text);
  file.commit();
}

void sync_folder(const std::string& path) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  require(folder >= 0, ErrorKind::io, "cannot open folder {}: {}", path, std::strerror(errno));
  const int reason = fsync(folder) == 0 ? 0 : errno;
  close(folder);
  // Some network file systems do not support fsync of folders; they order renames themselves.
  if (reason != 0 && reason != EINVAL)
    fail(ErrorKind::io, "cannot flush folder {} to disk: {}", path, std::strerror(reason));
}

}  // namespace trireme
