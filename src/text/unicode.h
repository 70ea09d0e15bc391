#pragma once
// UTF-8 and the character classes that tokenizers need. Bytes that are not valid UTF-8 are kept: each one reads as a
// code point without a class.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace trireme {

/// Appends the UTF-8 form of a valid code point.
void append_utf8(char32_t code, std::string& out);

/// Length of the longest prefix that does not end within a character; invalid bytes count individually.
size_t whole_characters(std::string_view text);

/// Code points in text; each invalid byte counts as one.
size_t count_code_points(std::string_view text);

/// Calls part(text, valid) for the longest runs of valid UTF-8 and for each invalid byte between them.
template <class Part>
void for_each_valid_run(std::string_view text, Part part) {
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const char* stop = p;
    while (stop < end) {
      const Decoded next = decode_utf8(stop, end);
      if (next.code == kInvalidCode) break;
      stop += next.length;
    }
    if (stop > p) part(std::string_view(p, static_cast<size_t>(stop - p)), true);
    if (stop < end) part(std::string_view(stop++, 1), false);
    p = stop;
  }
}

/// Bits of a character's class.
enum CharClass : uint8_t {
  kLetter = 1,       ///< general category L*
  kNumber = 2,       ///< N*
  kSpace = 4,        ///< property White_Space, \s in the patterns of tokenizers
  kPunctuation = 8,  ///< P*
  kWord = 16,        ///< \w: letters, marks, decimal and letter numbers, connectors, joiners
  kMark = 32,        ///< M*
  kNonspacing = 64,  ///< Mn
  kOther = 128,      ///< C*, except unassigned code points
};

/// Class bits of all code points, including kInvalidCode (no bits).
class CharTable {
 public:
  CharTable();
  uint8_t operator[](char32_t code) const { return bits_[code]; }

 private:
  uint8_t bits_[kInvalidCode + 1];
};

/// The table, made on first use (about 10 ms) and immutable.
const CharTable& char_table();

/// True for a letter that has a lower-case form. (The double-struck R of mathematics has none.)
bool is_upper_case(char32_t code);

/// ASCII punctuation including symbols such as $, and category P*.
inline bool is_punctuation(char32_t code) {
  if (code < 0x80)
    return (code >= 33 && code <= 47) || (code >= 58 && code <= 64) || (code >= 91 && code <= 96) ||
           (code >= 123 && code <= 126);
  return (char_table()[code] & kPunctuation) != 0;
}

}  // namespace trireme
