#include "data/prepare/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/opened_file.h"
#include "base/text.h"
#include "data/file_signature.h"
#include "text/text_encoding.h"

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

namespace {

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

namespace {

constexpr size_t kRead = size_t{64} << 10;

class ConvertedSource final : public ByteSource {
 public:
  ConvertedSource(std::unique_ptr<ByteSource> from, const std::string& encoding, const std::string& where)
      : from_(std::move(from)), transcoder_(encoding, where), raw_(kRead, '\0') {}
  size_t read(char* to, size_t size) override {
    while (at_ == ready_.size() && !ended_) {
      ready_.clear();
      at_ = 0;
      const size_t n = from_->read(raw_.data(), raw_.size());
      ended_ = n == 0;
      transcoder_.convert(std::string_view(raw_).substr(0, n), ended_, ready_);
    }
    const size_t n = std::min(size, ready_.size() - at_);
    std::memcpy(to, ready_.data() + at_, n);
    at_ += n;
    return n;
  }
  uint64_t consumed() const override { return from_->consumed(); }

 private:
  std::unique_ptr<ByteSource> from_;
  Transcoder transcoder_;
  std::string raw_, ready_;
  size_t at_ = 0;
  bool ended_ = false;
};

/// Passes its bytes on unchanged.
class JudgedSource final : public ByteSource {
 public:
  JudgedSource(std::unique_ptr<ByteSource> from, std::string where, bool of_lines)
      : from_(std::move(from)), where_(std::move(where)), judge_(of_lines), of_lines_(of_lines) {}
  size_t read(char* to, size_t size) override {
    const size_t n = from_->read(to, size);
    judge_.add({to, n});
    if (head_.size() < kRead) head_.append(to, std::min(n, kRead - head_.size()));
    nuls_ += static_cast<uint64_t>(std::count(to, to + n, '\0'));
    if (n == 0 || judge_.bytes() >= next_) {
      refuse_binary();
      next_ = 2 * judge_.bytes() + kRead;
      if (const auto found = judge_.verdict(n == 0)) fail(ErrorKind::data, "{}", explain(*found, where_));
    }
    if (n == 0) warn_of_bytes();
    return n;
  }
  uint64_t consumed() const override { return from_->consumed(); }
  void skip(uint64_t bytes) override {  // an earlier run has checked these bytes
    from_->skip(bytes);
  }

 private:
  void refuse_binary() {
    if (is_text_) return;
    require_text(head_, where_);
    is_text_ = true;
  }
  /// Lines that are not UTF-8 are skipped and counted elsewhere.
  void warn_of_bytes() {
    if (std::exchange(warned_, true) || of_lines_) return;
    if (const uint64_t count = judge_.invalid())
      log::warning("{}: {} of {} bytes are not UTF-8, the first is byte {}; they are used unchanged", where_, count,
                   judge_.bytes(), judge_.first_invalid());
    if (nuls_ > 0) log::warning("{}: {} of {} bytes are NUL; they are used unchanged", where_, nuls_, judge_.bytes());
  }

  std::unique_ptr<ByteSource> from_;
  std::string where_, head_;
  EncodingJudge judge_;
  uint64_t next_ = kRead, nuls_ = 0;
  bool of_lines_, is_text_ = false, warned_ = false;
};

}  // namespace

InputEncoding input_encoding_from(const std::string& name) {
  if (name == "auto") return {};
  return {known_encoding(name), false};
}

std::unique_ptr<ByteSource> as_utf8(std::unique_ptr<ByteSource> from, const InputEncoding& encoding,
                                    const std::string& where, bool of_lines) {
  if (!encoding.name.empty()) return std::make_unique<ConvertedSource>(std::move(from), encoding.name, where);
  if (encoding.judges) return std::make_unique<JudgedSource>(std::move(from), where, of_lines);
  return from;
}

}  // namespace trireme
