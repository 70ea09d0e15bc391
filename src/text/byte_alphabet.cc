#include "text/byte_alphabet.h"

#include <array>

#include "text/unicode.h"

namespace trireme {
namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

struct Alphabet {
  std::array<uint16_t, 256> letters{};
  std::array<int16_t, 512> bytes{};

  constexpr Alphabet() {
    bytes.fill(-1);
    unsigned next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const unsigned letter = stands_for_itself(byte) ? byte : next++;
      letters[byte] = static_cast<uint16_t>(letter);
      bytes[letter] = static_cast<int16_t>(byte);
    }
  }
};

constexpr Alphabet kAlphabet;

}  // namespace

char32_t byte_to_letter(uint8_t byte) { return kAlphabet.letters[byte]; }

int letter_to_byte(char32_t code) { return code < kAlphabet.bytes.size() ? kAlphabet.bytes[code] : -1; }

std::string spell_bytes(std::string_view bytes) {
  std::string out;
  append_spelling(bytes, out);
  return out;
}

void append_spelling(std::string_view bytes, std::string& out) {
  const size_t before = out.size();
  out.resize(before + 2 * bytes.size());
  char* to = out.data() + before;
  for (const char byte : bytes) {
    const uint16_t letter = kAlphabet.letters[static_cast<uint8_t>(byte)];  // of one byte or two in UTF-8
    *to = static_cast<char>(0xC0 | letter >> 6);
    to += letter >= 0x80;
    *to++ = static_cast<char>(letter < 0x80 ? letter : 0x80 | (letter & 0x3F));
  }
  out.resize(static_cast<size_t>(to - out.data()));
}

bool read_spelling(std::string_view spelling, std::string& out) {
  const size_t before = out.size();
  out.resize(before + spelling.size());
  char* to = out.data() + before;
  const char* const end = spelling.data() + spelling.size();
  for (const char* p = spelling.data(); p < end;) {
    if (stands_for_itself(static_cast<uint8_t>(*p)) && static_cast<uint8_t>(*p) < 0x80) {
      *to++ = *p++;
      continue;
    }
    const Decoded next = decode_utf8(p, end);
    const int byte = letter_to_byte(next.code);
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    *to++ = static_cast<char>(byte);
    p += next.length;
  }
  out.resize(static_cast<size_t>(to - out.data()));
  return true;
}

}  // namespace trireme
