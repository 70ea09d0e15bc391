#pragma once
// UTF-8, read character by character. Bytes that are not valid UTF-8 are kept: each one reads as kInvalidCode.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trireme {

/// The code point of an invalid byte: beyond Unicode, so no table and no vocabulary has it.
constexpr char32_t kInvalidCode = 0x110000;

struct Decoded {
  char32_t code;
  uint32_t length;  ///< bytes read, at least 1
};

/// Reads the code point at p < end. Overlong forms, surrogates and truncated sequences are invalid bytes.
inline Decoded decode_utf8(const char* p, const char* end) {
  const auto byte = [p](int i) { return static_cast<uint32_t>(static_cast<uint8_t>(p[i])); };
  const auto follows = [p](int i) { return (static_cast<uint8_t>(p[i]) & 0xC0) == 0x80; };
  const uint32_t first = byte(0);
  const ptrdiff_t left = end - p;
  if (first < 0x80) return {first, 1};
  if (first >= 0xC2 && first < 0xE0 && left > 1 && follows(1)) return {(first & 31) << 6 | (byte(1) & 63), 2};
  if (first >= 0xE0 && first < 0xF0 && left > 2 && follows(1) && follows(2)) {
    const uint32_t code = (first & 15) << 12 | (byte(1) & 63) << 6 | (byte(2) & 63);
    if (code >= 0x800 && (code < 0xD800 || code > 0xDFFF)) return {code, 3};
  }
  if (first >= 0xF0 && first < 0xF5 && left > 3 && follows(1) && follows(2) && follows(3)) {
    const uint32_t code = (first & 7) << 18 | (byte(1) & 63) << 12 | (byte(2) & 63) << 6 | (byte(3) & 63);
    if (code >= 0x10000 && code <= 0x10FFFF) return {code, 4};
  }
  return {kInvalidCode, 1};
}

/// Offset of the first byte that is not part of valid UTF-8, or is NUL; npos if there is none.
inline size_t find_invalid_utf8(std::string_view text) {
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const Decoded next = decode_utf8(p, end);
    if (next.code == kInvalidCode || next.code == 0) return static_cast<size_t>(p - text.data());
    p += next.length;
  }
  return std::string_view::npos;
}

}  // namespace trireme
