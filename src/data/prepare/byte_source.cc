#include "data/prepare/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/opened_file.h"
#include "data/prepare/compressed_source.h"

namespace trireme {
namespace {

constexpr size_t kBuffer = size_t{256} << 10;

class StandardInput final : public ByteSource {
 public:
  size_t read(char* to, size_t size) override {
    while (true) {
      const ssize_t n = ::read(STDIN_FILENO, to, size);
      if (n < 0 && errno == EINTR) continue;
      const int reason = errno;
      require(n >= 0, ErrorKind::io, "cannot read standard input: {}", std::strerror(reason));
      consumed_ += static_cast<uint64_t>(n);
      return static_cast<size_t>(n);
    }
  }
  uint64_t consumed() const override { return consumed_; }

 private:
  uint64_t consumed_ = 0;
};

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(std::string path) : path_(std::move(path)), file_(path_, Accepts::pipes_too) {
    posix_fadvise(file_.fd(), 0, 0, POSIX_FADV_SEQUENTIAL);
  }

  size_t read(char* to, size_t size) override {
    const size_t n = file_.read(to, size);
    consumed_ += n;
    return n;
  }
  uint64_t consumed() const override { return consumed_; }

  void skip(uint64_t bytes) override {
    struct stat info {};
    if (!file_.is_regular() || fstat(file_.fd(), &info) != 0) return ByteSource::skip(bytes);
    require(consumed_ + bytes <= static_cast<uint64_t>(info.st_size), ErrorKind::data, "{} ends before byte {}", path_,
            consumed_ + bytes);
    consumed_ += bytes;
    require(lseek(file_.fd(), static_cast<off_t>(consumed_), SEEK_SET) >= 0, ErrorKind::io, "cannot read {} at byte {}",
            path_, consumed_);
  }

 private:
  std::string path_;
  OpenedFile file_;
  uint64_t consumed_ = 0;
};

}  // namespace

void ByteSource::skip(uint64_t bytes) {
  std::vector<char> buffer(std::min<uint64_t>(bytes, kBuffer));
  for (uint64_t left = bytes; left > 0;) {
    const size_t n = read(buffer.data(), std::min<uint64_t>(left, buffer.size()));
    require(n > 0, ErrorKind::data, "the input ends {} bytes before the place to resume from", left);
    left -= n;
  }
}

std::unique_ptr<ByteSource> open_bytes(const std::string& path) {
  if (path == kStandardInput) return std::make_unique<StandardInput>();
  return std::make_unique<PlainSource>(path);
}

std::unique_ptr<ByteSource> open_source(const std::string& path) { return decompressed(open_bytes(path), path); }

}  // namespace trireme
