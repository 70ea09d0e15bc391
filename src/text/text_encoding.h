#pragma once
// Recognizes text in encodings other than UTF-8 and converts it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

/// The likely encoding of a text that is evidently not UTF-8.
struct OtherEncoding {
  std::string name;       ///< for --encoding; empty: not UTF-8, but unknown, or not text
  uint64_t offset = 0;    ///< of the first byte that shows it
  uint64_t count = 0;     ///< of such bytes
  uint64_t bytes = 0;     ///< number of bytes checked
  uint64_t controls = 0;  ///< control characters, where those show that it is not text in any encoding
};

/// Checks a text sequentially. Occasional bytes that are not UTF-8, and NUL characters, are not evidence: UTF-16 and
/// UTF-32 are recognized by their mark or the places of NULs, others by text without control characters whose bytes
/// above 127 are valid in them and hardly ever UTF-8.
class EncodingJudge {
 public:
  /// of_lines: lines that are not UTF-8 are skipped with a warning, so only a tenth of all lines is evidence.
  explicit EncodingJudge(bool of_lines = false) : of_lines_(of_lines) {}
  void add(std::string_view text);
  /// The result for all added text. at_end: nothing follows.
  std::optional<OtherEncoding> verdict(bool at_end) const;
  uint64_t bytes() const { return bytes_ + carry_.size(); }
  /// Bytes that are not UTF-8, and the place of the first, after the complete text was added.
  uint64_t invalid() const { return invalid_ + carry_.size(); }
  uint64_t first_invalid() const { return invalid_ > 0 ? first_invalid_ : bytes_; }

 private:
  void add_by_character(std::string_view text);
  std::optional<OtherEncoding> wide() const;

  std::string head_;   ///< first bytes
  std::string carry_;  ///< incomplete character at the end of the last block
  uint64_t bytes_ = 0, invalid_ = 0, valid_ = 0, controls_ = 0, letters_ = 0, first_invalid_ = 0;
  uint64_t upper_ = 0, lower_ = 0, near_ = 0;  ///< of invalid bytes: C0-DF; E0-FF; next to a letter of ASCII
  uint64_t windows_ = 0;                       ///< those in 80-9F, which latin1 does not define
  uint64_t lines_ = 0, bad_lines_ = 0;
  bool of_lines_ = false, is_bad_line_ = false;
  char last_ = 0;
};

/// The error text: the fault of `name`, and how to read it.
std::string explain(const OtherEncoding& found, const std::string& name);

/// The name for iconv; empty for "bytes" and "utf-8", which mean neither conversion nor judgement. Throws Error::usage.
std::string known_encoding(const std::string& name);

/// Converts a text piece by piece. Throws Error::data with the position of bytes that are invalid in the encoding.
class Transcoder {
 public:
  /// encoding: from known_encoding(). where: the file, for messages.
  Transcoder(const std::string& encoding, std::string where);
  ~Transcoder();
  Transcoder(const Transcoder&) = delete;
  Transcoder& operator=(const Transcoder&) = delete;
  /// Appends the UTF-8 form of `text` to `out`; keeps an incomplete character for the next piece. at_end: nothing
  /// follows.
  void convert(std::string_view text, bool at_end, std::string& out);

 private:
  void* state_;
  std::string encoding_, where_, rest_;
  uint64_t done_ = 0;
  bool began_ = false;
};

/// A complete text as UTF-8: converted from `encoding`; if that is empty and `judges`, refused if it is evidently in
/// another one. Throws Error::data.
std::string as_utf8(std::string text, const std::string& encoding, bool judges, const std::string& where);

}  // namespace trireme
