#pragma once
// GPT-2's spelling of bytes as visible characters, used by byte-level vocabularies: printable Latin-1 is unchanged,
// every other byte becomes a code point from U+0100 on, in byte order.

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

/// Code point that spells a byte.
char32_t byte_to_letter(uint8_t byte);
/// Byte that a code point spells, or -1.
int letter_to_byte(char32_t code);

/// Bytes in the alphabet's spelling.
std::string spell_bytes(std::string_view bytes);
void append_spelling(std::string_view bytes, std::string& out);
/// Appends the bytes of a spelling to `out`; returns false and appends nothing if a character is not in the alphabet.
bool read_spelling(std::string_view spelling, std::string& out);

}  // namespace trireme
