#include "data/prepare/compressed_source.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace trireme {
namespace {

constexpr size_t kBuffer = size_t{256} << 10;

/// Whether nothing but zeros is left of a buffer: they fill files up to whole blocks. Moves `at` behind them.
bool skip_zeros(const char* buffer, size_t& at, size_t end) {
  while (at < end && buffer[at] == 0) ++at;
  return at == end;
}

/// For bytes at the beginning that are not of the format, and for those after the end of compressed data.
[[noreturn]] void refuse_start(const std::string& path, uint64_t at, bool first, const char* format) {
  if (first) fail(ErrorKind::data, "{} is not {} data, which its name promises", path, format);
  fail(
      ErrorKind::data,
      "{}: from byte {} on, after the end of its compressed data, it has bytes that are neither {} data nor zeros; cut "
      "them off, or unpack it yourself",
      path, at, format);
}

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
      if (between_members_) {
        size_t at = 0;
        const bool ended =
            members_ > 0 && skip_zeros(reinterpret_cast<const char*>(stream_.next_in), at, stream_.avail_in);
        stream_.next_in += at;
        stream_.avail_in -= static_cast<uInt>(at);
        if (ended) continue;
        inflateReset(&stream_);
        begin_ = consumed();
      }
      between_members_ = false;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      between_members_ = result == Z_STREAM_END;
      members_ += between_members_ ? 1 : 0;
      if (result == Z_DATA_ERROR && stream_.msg == std::string_view("incorrect header check"))
        refuse_start(path_, begin_, members_ == 0, "gzip");
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
  uint64_t members_ = 0, begin_ = 0;  // complete ones; where the current one begins
};

class ZstdSource final : public ByteSource {
 public:
  ZstdSource(std::unique_ptr<ByteSource> from, std::string path)
      : path_(std::move(path)), from_(std::move(from)), buffer_(kBuffer), stream_(ZSTD_createDStream()) {
    // The largest window there is, of `zstd --long=31`: of its 2 GB only those pages use memory that the data fills.
    const bool started =
        stream_ != nullptr && !ZSTD_isError(ZSTD_DCtx_setParameter(
                                  stream_, ZSTD_d_windowLogMax, ZSTD_dParam_getBounds(ZSTD_d_windowLogMax).upperBound));
    require(started, ErrorKind::io, "cannot start to decompress {}", path_);
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
      if (between_frames_) {
        if (frames_ > 0 && skip_zeros(buffer_.data(), in_.pos, in_.size)) continue;
        begin_ = consumed();
      }
      const size_t result = ZSTD_decompressStream(stream_, &out, &in_);
      if (ZSTD_isError(result)) refuse(result);
      between_frames_ = result == 0;
      frames_ += between_frames_ ? 1 : 0;
    }
    return out.pos;
  }
  uint64_t consumed() const override { return from_->consumed() - (in_.size - in_.pos); }

 private:
  [[noreturn]] void refuse(size_t result) const {
    const ZSTD_ErrorCode code = ZSTD_getErrorCode(result);
    if (code == ZSTD_error_prefix_unknown) refuse_start(path_, begin_, frames_ == 0, "zstd");
    const bool memory = code == ZSTD_error_memory_allocation || code == ZSTD_error_frameParameter_windowTooLarge;
    require(
        !memory, ErrorKind::data,
        "{}: its window (zstd --long) needs more memory than this process can get: {}; unpack it on a larger machine "
        "with zstd -d --long=31",
        path_, ZSTD_getErrorName(result));
    fail(ErrorKind::data, "{} is damaged near byte {}: {}", path_, consumed(), ZSTD_getErrorName(result));
  }

  std::string path_;
  std::unique_ptr<ByteSource> from_;
  std::vector<char> buffer_;
  ZSTD_DStream* stream_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool between_frames_ = true;
  uint64_t frames_ = 0, begin_ = 0;  // complete ones, those that readers skip included; where the current one begins
};

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
