#pragma once
// A regular expression as tables: finds the matches that a backtracking engine finds (at each place those of the first
// alternative, and of the most or fewest repetitions, with which the rest matches), reading each character once or
// twice. One row per state, one column per class of characters that the expression tells apart.

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode.h"

namespace trireme {

class Cutter {
 public:
  /// What the expression is matched with.
  enum class Text : uint8_t {
    utf8,          ///< no match goes over an invalid byte: it is the end of a text
    lenient_utf8,  ///< an invalid byte is a character without properties
    spelled        ///< bytes, each of them as the letter of GPT-2's byte alphabet that spells it
  };

  /// Throws NotForTables (pattern_tree.h) for an expression that tables cannot do.
  Cutter(std::string_view pattern, Text text);

  /// End of the match that begins at p < end; nullptr: none does.
  const char* match(const char* p, const char* end) const;

  struct Part {
    const char* end;
    bool matched;
  };
  /// The part that begins at p < end: a match, or all the text up to the next match.
  Part next(const char* p, const char* end) const {
    if (const char* const stop = match(p, end)) return {stop, true};
    return {gap(p, end), false};
  }

  size_t states() const { return skips_.size(); }
  /// True if a search that has read the first of two bytes goes no further, and has the matches that it has where the
  /// text ends between them. Of ASCII characters, or of any bytes where they are spelled.
  bool ends_between(uint8_t before, uint8_t after) const;
  /// True if a match begins at every such byte.
  bool always_matches(uint8_t byte) const;

 private:
  friend class CutterCompiler;

  // An entry is the row of the next state and what is known when the character is seen.
  static constexpr uint32_t kMatch = 1;  // a match ends before it
  static constexpr uint32_t kStop = 2;   // no match goes on
  static constexpr uint32_t kSkip = 4;   // the next state stays itself over a range of ASCII
  static constexpr int kRowShift = 3;
  static constexpr uint8_t kDecode = 255;  // in byte_classes_: the character has more bytes
  static constexpr size_t kBlock = 128;

  /// The range of ASCII over which a state stays, for eight bytes at a time.
  struct Skip {
    uint64_t fold = 0, from = 0, beyond = 0;
  };

  struct Character {
    unsigned column;
    size_t bytes;
  };
  Character character(const char* p, const char* end) const {
    const unsigned column = byte_classes_[static_cast<uint8_t>(*p)];
    if (column != kDecode) return {column, 1};
    const Decoded next = decode_utf8(p, end);
    if (next.code == kInvalidCode) return {invalid_, 1};
    return {class_of(next.code), next.length};
  }
  unsigned class_of(char32_t code) const { return classes_[blocks_[code / kBlock] * kBlock + code % kBlock]; }

  /// Over bytes of the range, as far as eight at a time go.
  static const char* skip(const Skip& range, const char* p, const char* end) {
    constexpr uint64_t kHigh = 0x8080808080808080;
    while (end - p >= 8) {
      uint64_t word;
      std::memcpy(&word, p, 8);
      const uint64_t folded = (word | range.fold) & ~kHigh;
      const uint64_t others = ((folded + range.from) & ~(folded + range.beyond) & ~word & kHigh) ^ kHigh;
      if (others != 0) return p + std::countr_zero(others) / 8;
      p += 8;
    }
    return p;
  }

  const char* gap(const char* p, const char* end) const;

  std::vector<uint32_t> table_;
  std::vector<Skip> skips_;  // of each state
  int columns_shift_ = 0;
  unsigned end_ = 0, invalid_ = 0;  // columns of the end of the text and of an invalid byte
  std::array<uint8_t, 256> byte_classes_{};
  std::vector<uint16_t> blocks_;
  std::vector<uint8_t> classes_;
};

inline const char* Cutter::match(const char* p, const char* end) const {
  const char* last = nullptr;
  for (uint32_t row = 0;;) {
    if (p == end) return table_[row + end_] & kMatch ? p : last;
    const Character next = character(p, end);
    const uint32_t entry = table_[row + next.column];
    if (entry & kMatch) last = p;
    if (entry & kStop) return last;
    p += next.bytes;
    row = entry >> kRowShift;
    if (entry & kSkip) {
      const char* const before = p;
      p = skip(skips_[row >> columns_shift_], p, end);
      if (p != before) last = p - 1;  // a state that stays itself has a match before every character
    }
  }
}

}  // namespace trireme
