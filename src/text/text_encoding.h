#pragma once
// Text in encodings that are not UTF-8: what it seems to be in, and its UTF-8 form.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

/// What the bytes of a text seem to be in, where that is evidently not UTF-8.
struct OtherEncoding {
  std::string name;     ///< as --encoding takes it; empty: not UTF-8, but which one is not known
  uint64_t offset = 0;  ///< of the first byte that says so
  uint64_t count = 0;   ///< of such bytes
  uint64_t bytes = 0;   ///< that were looked at
};

/// Looks at a text from front to back. Bytes that are not UTF-8 here and there, and NUL characters, do not count as
/// evidence: UTF-16 and UTF-32 are known by their mark or by where their NULs are, others by text whose bytes above 127
/// are characters of them and hardly ever UTF-8, without control characters.
class EncodingJudge {
 public:
  /// of_lines: lines that are not UTF-8 are skipped and named, so that only a tenth of all lines is evidence.
  explicit EncodingJudge(bool of_lines = false) : of_lines_(of_lines) {}
  void add(std::string_view text);
  /// Of all that was added. at_end: nothing follows.
  std::optional<OtherEncoding> verdict(bool at_end) const;
  uint64_t bytes() const { return bytes_; }

 private:
  void add_slowly(std::string_view text);
  std::optional<OtherEncoding> wide() const;

  std::string head_;   ///< first bytes
  std::string carry_;  ///< of a character that the last block cuts
  uint64_t bytes_ = 0, invalid_ = 0, valid_ = 0, controls_ = 0, letters_ = 0, first_invalid_ = 0;
  uint64_t upper_ = 0, lower_ = 0, near_ = 0;  ///< of invalid bytes: C0-DF; E0-FF; next to a letter of ASCII
  uint64_t windows_ = 0;                       ///< of them 80-9F, which latin1 has no characters for
  uint64_t lines_ = 0, bad_lines_ = 0;
  bool of_lines_ = false, is_bad_line_ = false;
  char last_ = 0;
};

/// What is wrong with `name`, and how to read it: the text of an error.
std::string explain(const OtherEncoding& found, const std::string& name);

/// The name as iconv knows it; "bytes" and "utf-8" mean that nothing is converted and nothing judged: empty. Throws
/// Error::usage.
std::string known_encoding(const std::string& name);

/// Converts a text piece by piece. Throws Error::data with the position of bytes that the encoding does not have.
class Transcoder {
 public:
  /// encoding: as known_encoding() gives it. where: the file, for messages.
  Transcoder(const std::string& encoding, std::string where);
  ~Transcoder();
  Transcoder(const Transcoder&) = delete;
  Transcoder& operator=(const Transcoder&) = delete;
  /// Appends the UTF-8 form of `text` to `out`; what a piece cuts is kept for the next one. at_end: nothing follows.
  void convert(std::string_view text, bool at_end, std::string& out);

 private:
  void* state_;
  std::string encoding_, where_, rest_;
  uint64_t done_ = 0;
  bool began_ = false;
};

/// A whole text as UTF-8: converted from `encoding`, or, where that is empty and `judges`, refused if it is evidently
/// in another one. Throws Error::data.
std::string as_utf8(std::string text, const std::string& encoding, bool judges, const std::string& where);

}  // namespace trireme
