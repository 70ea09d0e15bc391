#include "data/prepare/encoded_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "data/file_signature.h"
#include "text/text_encoding.h"

namespace trireme {
namespace {

constexpr size_t kBuffer = size_t{64} << 10;

class ConvertedSource final : public ByteSource {
 public:
  ConvertedSource(std::unique_ptr<ByteSource> from, const std::string& encoding, const std::string& where)
      : from_(std::move(from)), transcoder_(encoding, where), raw_(kBuffer, '\0') {}
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
    if (head_.size() < kBuffer) head_.append(to, std::min(n, kBuffer - head_.size()));
    nuls_ += static_cast<uint64_t>(std::count(to, to + n, '\0'));
    if (n == 0 || judge_.bytes() >= next_) {
      refuse_binary();
      next_ = 2 * judge_.bytes() + kBuffer;
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
  uint64_t next_ = kBuffer, nuls_ = 0;
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
