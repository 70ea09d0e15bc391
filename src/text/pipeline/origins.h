#pragma once
// Where the bytes of a rewritten text come from, so that ids can be found in the text as it was given.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/unicode.h"

namespace trireme {

/// For each byte of a text, the bytes of the earlier text that it was made from; an empty span: inserted there.
class Origins {
 public:
  /// The next `bytes` bytes were made from `from`.
  void add(size_t bytes, const TextSpan& from);
  /// The next `bytes` bytes are those from `begin` on.
  void keep(size_t bytes, size_t begin);
  /// Bytes of the rewritten text so far.
  size_t size() const { return spans_.size(); }
  /// What [begin, end) of the rewritten text was made from.
  TextSpan of(const TextSpan& span) const;
  /// The rewritten text was rewritten again: `later` refers to it.
  void follow(const Origins& later);

 private:
  struct Span {
    uint32_t begin, end;
  };
  std::vector<Span> spans_;
};

/// Rewrites a text from its beginning to its end.
class Rewriting {
 public:
  /// origins: gets where the bytes of `out` come from; may be null.
  Rewriting(std::string_view text, Origins* origins) : text_(text), origins_(origins) { out.reserve(text.size()); }

  /// The next `bytes` bytes stay.
  void keep(size_t bytes) {
    out.append(text_, at_, bytes);
    if (origins_ != nullptr) origins_->keep(bytes, at_);
    at_ += bytes;
  }
  /// The next `bytes` bytes became what was appended to `out` since the last call of either.
  void took(size_t bytes) {
    if (origins_ != nullptr) origins_->add(out.size() - origins_->size(), {at_, at_ + bytes});
    at_ += bytes;
  }
  bool has_origins() const { return origins_ != nullptr; }

  std::string out;

 private:
  std::string_view text_;
  Origins* origins_;
  size_t at_ = 0;
};

/// Characters mapped one by one: map(code, out) appends what a character becomes. Invalid bytes stay.
template <class Map>
std::string map_characters(std::string_view text, Origins* origins, Map map) {
  Rewriting rewriting(text, origins);
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const Decoded next = decode_utf8(p, end);
    if (next.code == kInvalidCode) {
      rewriting.keep(1);
    } else {
      map(next.code, rewriting.out);
      rewriting.took(next.length);
    }
    p += next.length;
  }
  return std::move(rewriting.out);
}

/// byte_alphabet.h
std::string spell_bytes(std::string_view bytes, Origins* origins);

}  // namespace trireme
