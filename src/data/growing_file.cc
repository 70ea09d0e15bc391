#include "data/growing_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace trireme {
namespace {

constexpr size_t kBuffer = size_t{2} << 20;

}  // namespace

GrowingFile::GrowingFile(std::string path, uint64_t size) : path_(std::move(path)) {
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  require(fd_ >= 0, ErrorKind::io, "cannot create {}: {}", path_, std::strerror(errno));
  const off_t found = lseek(fd_, 0, SEEK_END);
  const bool cut = found >= static_cast<off_t>(size) && ftruncate(fd_, static_cast<off_t>(size)) == 0 &&
                   lseek(fd_, static_cast<off_t>(size), SEEK_SET) >= 0;
  if (!cut) {
    close(fd_);
    fail(ErrorKind::io, "{} has {} bytes, {} were saved; remove it to start from the beginning", path_, found, size);
  }
  buffer_.reserve(kBuffer);
}

GrowingFile::~GrowingFile() { close(fd_); }

void GrowingFile::append(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBuffer) flush();
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  if (buffer_.size() >= kBuffer) flush();
}

void GrowingFile::flush() {
  for (size_t done = 0; done < buffer_.size();) {
    const ssize_t n = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
    if (n < 0 && errno == EINTR) continue;
    require(n > 0, ErrorKind::io, "cannot write {}: {}", path_, std::strerror(errno));
    done += static_cast<size_t>(n);
  }
  buffer_.clear();
}

void GrowingFile::sync() {
  flush();
  const bool synced = fdatasync(fd_) == 0;
  require(synced, ErrorKind::io, "cannot flush {} to disk: {}", path_, std::strerror(errno));
}

void GrowingFile::move(const std::string& path, uint64_t size) {
  flush();
  require(ftruncate(fd_, static_cast<off_t>(size)) == 0, ErrorKind::io, "cannot cut {}: {}", path_,
          std::strerror(errno));
  sync();
  const bool moved = std::rename(path_.c_str(), path.c_str()) == 0;
  require(moved, ErrorKind::io, "cannot move {} to {}: {}", path_, path, std::strerror(errno));
  path_ = path;
}

void GrowingFile::read(uint64_t offset, std::span<std::byte> bytes) const {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = pread(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    require(n > 0, ErrorKind::io, "cannot read {} back: {}", path_, n < 0 ? std::strerror(errno) : "it was cut off");
    done += static_cast<size_t>(n);
  }
}

}  // namespace trireme
