#include "data/byte_source.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace trireme {
namespace {

constexpr size_t kBuffer = size_t{256} << 10;

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(std::string path) : path_(std::move(path)), fd_(open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    require(fd_ >= 0, ErrorKind::io, "cannot open {}: {}", path_, std::strerror(errno));
    posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);
  }
  PlainSource(const PlainSource&) = delete;
  PlainSource& operator=(const PlainSource&) = delete;
  ~PlainSource() override { close(fd_); }

  size_t read(char* to, size_t size) override {
    while (true) {
      const ssize_t n = ::read(fd_, to, size);
      if (n < 0 && errno == EINTR) continue;
      require(n >= 0, ErrorKind::io, "cannot read {}: {}", path_, std::strerror(errno));
      consumed_ += static_cast<uint64_t>(n);
      return static_cast<size_t>(n);
    }
  }
  uint64_t consumed() const override { return consumed_; }

 private:
  std::string path_;
  int fd_;
  uint64_t consumed_ = 0;
};

/// gzip, also several members one after the other.
class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(const std::string& path) : path_(path), file_(path), buffer_(kBuffer) {
    // 15 + 16: the largest window, gzip header expected
    require(inflateInit2(&stream_, 15 + 16) == Z_OK, ErrorKind::io, "cannot start to decompress {}", path);
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;
  ~GzipSource() override { inflateEnd(&stream_); }

  size_t read(char* to, size_t size) override {
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(std::min<size_t>(size, UINT32_MAX));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted) {
      if (stream_.avail_in == 0 && !refill()) {
        require(between_members_, ErrorKind::data, "{} ends in the middle of its compressed data", path_);
        return 0;
      }
      if (between_members_) inflateReset(&stream_);
      between_members_ = false;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      between_members_ = result == Z_STREAM_END;
      require(result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR, ErrorKind::data,
              "{} is damaged at byte {}: {}", path_, consumed(), stream_.msg ? stream_.msg : "not gzip data");
    }
    return wanted - stream_.avail_out;
  }
  uint64_t consumed() const override { return file_.consumed() - stream_.avail_in; }

 private:
  bool refill() {
    stream_.avail_in = static_cast<uInt>(file_.read(buffer_.data(), buffer_.size()));
    stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
    return stream_.avail_in > 0;
  }

  std::string path_;
  PlainSource file_;
  std::vector<char> buffer_;
  z_stream stream_{};
  bool between_members_ = true;
};

class ZstdSource final : public ByteSource {
 public:
  explicit ZstdSource(const std::string& path)
      : path_(path), file_(path), buffer_(kBuffer), stream_(ZSTD_createDStream()) {
    require(stream_ != nullptr, ErrorKind::io, "cannot start to decompress {}", path);
  }
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }

  size_t read(char* to, size_t size) override {
    ZSTD_outBuffer out{to, size, 0};
    while (out.pos == 0) {
      if (in_.pos == in_.size) {
        in_ = {buffer_.data(), file_.read(buffer_.data(), buffer_.size()), 0};
        if (in_.size == 0) {
          require(between_frames_, ErrorKind::data, "{} ends in the middle of its compressed data", path_);
          return 0;
        }
      }
      const size_t result = ZSTD_decompressStream(stream_, &out, &in_);
      require(!ZSTD_isError(result), ErrorKind::data, "{} is damaged near byte {}: {}", path_, consumed(),
              ZSTD_getErrorName(result));
      between_frames_ = result == 0;
    }
    return out.pos;
  }
  uint64_t consumed() const override { return file_.consumed() - (in_.size - in_.pos); }

 private:
  std::string path_;
  PlainSource file_;
  std::vector<char> buffer_;
  ZSTD_DStream* stream_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool between_frames_ = true;
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

}  // namespace

std::unique_ptr<ByteSource> open_source(const std::string& path) {
  const std::string name = lower(path);
  if (name.ends_with(".gz")) return std::make_unique<GzipSource>(path);
  if (name.ends_with(".zst")) return std::make_unique<ZstdSource>(path);
  return std::make_unique<PlainSource>(path);
}

std::string uncompressed_name(const std::string& path) {
  std::string name = lower(path);
  for (const char* suffix : {".gz", ".zst"}) {
    if (name.ends_with(suffix)) return name.substr(0, name.size() - std::string_view(suffix).size());
  }
  return name;
}

}  // namespace trireme
