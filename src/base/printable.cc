#include "base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/utf8.h"

namespace trireme {
namespace {

constexpr char kEscape = 0x1b;

/// Bytes of the control sequence that begins with the escape at `at` (ECMA-48): CSI, strings such as OSC, or two bytes.
size_t control_sequence(std::string_view text, size_t at) {
  const auto in = [&](size_t i, uint8_t low, uint8_t high) {
    return i < text.size() && static_cast<uint8_t>(text[i]) >= low && static_cast<uint8_t>(text[i]) <= high;
  };
  size_t end = at + 1;
  if (!in(end, 0x20, 0x7E)) return 1;
  const char kind = text[end++];
  if (kind == '[') {
    while (in(end, 0x30, 0x3F)) ++end;
    while (in(end, 0x20, 0x2F)) ++end;
    if (in(end, 0x40, 0x7E)) ++end;
  } else if (kind == ']' || kind == 'P' || kind == 'X' || kind == '^' || kind == '_') {
    const size_t stop = text.find_first_of("\a\x1b\n", end);
    if (stop == std::string_view::npos || text[stop] == '\n') return end - at;
    end = stop + (text[stop] == kEscape && in(stop + 1, '\\', '\\') ? 2 : 1);
  }
  return end - at;
}

bool is_control(uint32_t code) {
  return (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7F && code < 0xA0);
}
bool changes_direction(uint32_t code) {
  return code == 0x200E || code == 0x200F || (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

void append_printable(std::string_view text, std::string& out) {
  for (size_t at = 0; at < text.size();) {
    if (text[at] == kEscape) {
      at += control_sequence(text, at);
      continue;
    }
    const Decoded next = decode_utf8(text.data() + at, text.data() + text.size());
    const size_t length = next.length;
    if (next.code == kInvalidCode || is_control(next.code)) {
      for (size_t i = 0; i < length; ++i) out += fmt::format("\\x{:02x}", static_cast<uint8_t>(text[at + i]));
    } else if (changes_direction(next.code)) {
      out += fmt::format("\\u{{{:04x}}}", static_cast<uint32_t>(next.code));
    } else {
      out.append(text, at, length);
    }
    at += length;
  }
}

/// The nearest character boundary at or before `at`.
size_t boundary_before(std::string_view text, size_t at) {
  while (at > 0 && at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

}  // namespace

std::string printable(std::string_view text, size_t most_bytes) {
  std::string out;
  if (text.size() <= most_bytes) {
    append_printable(text, out);
    if (out.size() <= most_bytes) return out;
  }
  // Three quarters from the beginning, the rest from the end; escapes can make each up to four times as long.
  out.clear();
  const size_t last = most_bytes / 4, first = most_bytes - last;
  std::string head, tail;
  append_printable(text.substr(0, std::min(text.size(), first)), head);
  append_printable(text.substr(text.size() - std::min(text.size(), last)), tail);
  if (head.size() > first) head.resize(boundary_before(head, first));
  if (tail.size() > last) tail.erase(0, boundary_before(tail, tail.size() - last));
  return fmt::format("{} ... ({} bytes in total, middle omitted) ... {}", head, text.size(), tail);
}

}  // namespace trireme
