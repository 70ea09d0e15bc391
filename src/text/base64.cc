#include "text/base64.h"

#include <array>
#include <cstdint>

namespace trireme {
namespace {

constexpr int digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

}  // namespace

std::optional<std::string> decode_base64(std::string_view text) {
  std::string out;
  if (!decode_base64(text, out)) return std::nullopt;
  return out;
}

bool decode_base64(std::string_view text, std::string& out) {
  static constexpr auto kDigits = [] {
    std::array<int8_t, 256> digits{};
    for (unsigned c = 0; c < 256; ++c) digits[c] = static_cast<int8_t>(digit(static_cast<char>(c)));
    return digits;
  }();
  if (text.size() % 4 != 0) return false;
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  const size_t before = out.size();
  out.resize(before + text.size() / 4 * 3);
  char* to = out.data() + before;
  int32_t wrong = 0;  // negative after a character that is not a digit
  const auto value = [&](size_t at) { return static_cast<int32_t>(kDigits[static_cast<uint8_t>(text[at])]); };
  const auto four = [&](int32_t a, int32_t b, int32_t c, int32_t d) {
    wrong |= a | b | c | d;
    const uint32_t bits = static_cast<uint32_t>(a) << 18 | static_cast<uint32_t>(b) << 12 |
                          static_cast<uint32_t>(c) << 6 | static_cast<uint32_t>(d);
    to[0] = static_cast<char>(bits >> 16);
    to[1] = static_cast<char>(bits >> 8);
    to[2] = static_cast<char>(bits);
    to += 3;
  };
  size_t at = 0;
  for (; at + (padding > 0 ? 4 : 0) < text.size(); at += 4)
    four(value(at), value(at + 1), value(at + 2), value(at + 3));
  if (padding > 0) four(value(at), value(at + 1), padding > 1 ? 0 : value(at + 2), 0);
  out.resize(wrong < 0 ? before : out.size() - padding);
  return wrong >= 0;
}

}  // namespace trireme
