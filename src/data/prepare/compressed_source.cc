#include "data/prepare/compressed_source.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace trireme {
namespace {

constexpr size_t kBuffer = size_t{256} << 10;

/// gzip, also several concatenated members.
class GzipSource final : public ByteSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> from, std::string path)
      : path_(std::move(path)), from_(std::move(from)), buffer_(kBuffer) {
    // 15 + 16: the largest window, gzip header expected
    require(inflateInit2(&stream_, 15 + 16) == Z_OK, ErrorKind::io, "cannot start to decompress {}", path_);
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
  uint64_t consumed() const override { return from_->consumed() - stream_.avail_in; }

 private:
  bool refill() {
    stream_.avail_in = static_cast<uInt>(from_->read(buffer_.data(), buffer_.size()));
    stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
    return stream_.avail_in > 0;
  }

  std::string path_;
  std::unique_ptr<ByteSource> from_;
  std::vector<char> buffer_;
  z_stream stream_{};
  bool between_members_ = true;
};

class ZstdSource final : public ByteSource {
 public:
  ZstdSource(std::unique_ptr<ByteSource> from, std::string path)
      : path_(std::move(path)), from_(std::move(from)), buffer_(kBuffer), stream_(ZSTD_createDStream()) {
    require(stream_ != nullptr, ErrorKind::io, "cannot start to decompress {}", path_);
  }
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }

  size_t read(char* to, size_t size) override {
    ZSTD_outBuffer out{to, size, 0};
    while (out.pos == 0) {
      if (in_.pos == in_.size) {
        in_ = {buffer_.data(), from_->read(buffer_.data(), buffer_.size()), 0};
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
  uint64_t consumed() const override { return from_->consumed() - (in_.size - in_.pos); }

 private:
  std::string path_;
  std::unique_ptr<ByteSource> from_;
  std::vector<char> buffer_;
  ZSTD_DStream* stream_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool between_frames_ = true;
};

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

}  // namespace

std::unique_ptr<ByteSource> decompressed(std::unique_ptr<ByteSource> from, const std::string& path) {
  switch (compression_of(path)) {
    case Compression::gzip:
      return std::make_unique<GzipSource>(std::move(from), path);
    case Compression::zstd:
      return std::make_unique<ZstdSource>(std::move(from), path);
    case Compression::none:
      break;
  }
  return from;
}

Compression compression_of(const std::string& path) {
  const std::string name = lower_case(path);
  if (name.ends_with(".gz") || name.ends_with(".tgz")) return Compression::gzip;
  if (name.ends_with(".zst") || name.ends_with(".tzst")) return Compression::zstd;
  return Compression::none;
}

std::string uncompressed_name(const std::string& path) {
  std::string name = lower_case(path);
  for (const char* suffix : {".gz", ".zst"}) {
    if (name.ends_with(suffix)) return name.substr(0, name.size() - std::string_view(suffix).size());
  }
  for (const char* suffix : {".tgz", ".tzst"}) {
    if (name.ends_with(suffix)) return name.substr(0, name.size() - std::string_view(suffix).size()) + ".tar";
  }
  return name;
}

}  // namespace trireme
