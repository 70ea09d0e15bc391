#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/opened_file.h"

namespace trireme {
namespace {

std::string folder_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
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

AtomicFile::AtomicFile(std::string path, unsigned mode)
    : path_(std::move(path)), temporary_(fmt::format("{}.tmp-{}", path_, getpid())) {
  fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  require(fd_ >= 0, ErrorKind::io, "cannot create {}: {}", temporary_, std::strerror(errno));
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(fd_, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    require(n > 0, ErrorKind::io, "cannot write {} ({} of {} bytes written): {}", temporary_, done, bytes.size(),
            std::strerror(errno));
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
    require(n > 0, ErrorKind::io, "cannot write {} at offset {} ({} of {} bytes written): {}", temporary_, offset, done,
            bytes.size(), std::strerror(errno));
    done += static_cast<size_t>(n);
  }
  if (bytes.size() < kLargePiece) return;
  constexpr unsigned kAndWait = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  static_cast<void>(sync_file_range(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes.size()), kAndWait));
}

void AtomicFile::commit() {
  const bool flushed = fsync(fd_) == 0;
  require(flushed, ErrorKind::io, "cannot flush {} to disk: {}", temporary_, std::strerror(errno));
  const int closed = close(std::exchange(fd_, -1));
  if (closed != 0 || rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int reason = errno;
    unlink(temporary_.c_str());
    fail(ErrorKind::io, "cannot publish {}: {}", path_, std::strerror(reason));
  }
  sync_folder(folder_of(path_));
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
    return {};
  }
}

void write_text(const std::string& path, std::string_view text, unsigned mode) {
  AtomicFile file(path, mode);
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
