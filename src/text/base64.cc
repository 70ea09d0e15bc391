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
  static constexpr auto kDigits = [] {
    std::array<int8_t, 256> digits{};
    for (unsigned c = 0; c < 256; ++c) digits[c] = static_cast<int8_t>(digit(static_cast<char>(c)));
    return digits;
  }();
  if (text.size() % 4 != 0) return std::nullopt;
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  std::string out(text.size() / 4 * 3, '\0');
  char* to = out.data();
  int wrong = 0;  // negative where a character was no digit
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t bits = 0;
    for (size_t k = i; k < i + 4; ++k) {
      const int value = k + padding < text.size() ? kDigits[static_cast<uint8_t>(text[k])] : 0;
      wrong |= value;
      bits = bits << 6 | (static_cast<uint32_t>(value) & 0x3F);
    }
    for (int shift = 16; shift >= 0; shift -= 8) *to++ = static_cast<char>(bits >> shift);
  }
  if (wrong < 0) return std::nullopt;
  out.resize(out.size() - padding);
  return out;
}

}  // namespace trireme
