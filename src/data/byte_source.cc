#include "data/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "data/compressed_source.h"

namespace trireme {
namespace {

constexpr size_t kBuffer = size_t{256} << 10;

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(std::string path)
      : path_(std::move(path)),
        fd_(path_ == kStandardInput ? dup(STDIN_FILENO) : open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    require(fd_ >= 0, ErrorKind::io, "cannot open {}: {}", name(), std::strerror(errno));
    posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);
  }
  PlainSource(const PlainSource&) = delete;
  PlainSource& operator=(const PlainSource&) = delete;
  ~PlainSource() override { close(fd_); }

  size_t read(char* to, size_t size) override {
    while (true) {
      const ssize_t n = ::read(fd_, to, size);
      if (n < 0 && errno == EINTR) continue;
      require(n >= 0, ErrorKind::io, "cannot read {}: {}", name(), std::strerror(errno));
      consumed_ += static_cast<uint64_t>(n);
      return static_cast<size_t>(n);
    }
  }
  uint64_t consumed() const override { return consumed_; }

  void skip(uint64_t bytes) override {
    struct stat info {};
    const bool seekable = fstat(fd_, &info) == 0 && S_ISREG(info.st_mode) && path_ != kStandardInput;
    if (!seekable) return ByteSource::skip(bytes);
    require(consumed_ + bytes <= static_cast<uint64_t>(info.st_size), ErrorKind::data, "{} ends before byte {}", path_,
            consumed_ + bytes);
    consumed_ += bytes;
    require(lseek(fd_, static_cast<off_t>(consumed_), SEEK_SET) >= 0, ErrorKind::io, "cannot read {} at byte {}", path_,
            consumed_);
  }

 private:
  const char* name() const { return path_ == kStandardInput ? "standard input" : path_.c_str(); }

  std::string path_;
  int fd_;
  uint64_t consumed_ = 0;
};

}  // namespace

void ByteSource::skip(uint64_t bytes) {
  std::vector<char> buffer(std::min<uint64_t>(bytes, kBuffer));
  for (uint64_t left = bytes; left > 0;) {
    const size_t n = read(buffer.data(), std::min<uint64_t>(left, buffer.size()));
    require(n > 0, ErrorKind::data, "the input ends {} bytes before the place to go on from", left);
    left -= n;
  }
}

std::unique_ptr<ByteSource> open_bytes(const std::string& path) { return std::make_unique<PlainSource>(path); }

std::unique_ptr<ByteSource> open_source(const std::string& path) { return decompressed(open_bytes(path), path); }

}  // namespace trireme
