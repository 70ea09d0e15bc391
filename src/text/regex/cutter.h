#pragma once
// A regular expression as tables: finds the same matches as a backtracking engine (at each place the first alternative,
// and the most or fewest repetitions, with which the rest matches), reading each character once or twice. One row per
// state, one column per class of characters that the expression distinguishes.

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/unicode.h"

namespace trireme {

class Cutter {
 public:
  /// The text that the expression is matched with.
  enum class Text : uint8_t {
    utf8,          ///< no match crosses an invalid byte: it is the end of a text
    lenient_utf8,  ///< an invalid byte is a character without properties
    spelled        ///< bytes, each as its letter of GPT-2's byte alphabet
  };

  /// Throws NotForTables (pattern_tree.h) for an expression that tables cannot express.
  Cutter(std::string_view pattern, Text text);

  /// End of the match that begins at p < end; nullptr: none.
  const char* match(const char* p, const char* end) const;

  struct Part {
    const char* end;
    bool matched;
  };
  /// The part that begins at p < end: a match, or the text up to the next match.
  [[gnu::always_inline]] Part next(const char* p, const char* end) const {
    if (const char* const stop = match(p, end)) return {stop, true};
    return {gap(p, end), false};
  }

  size_t states() const { return states_; }
  /// True if a search that has read the first of two bytes stops there, with the same matches as if the text ended
  /// between them. For ASCII characters, or for any spelled bytes.
  bool ends_between(uint8_t before, uint8_t after) const;
  /// True if a match begins at every such byte.
  bool always_matches(uint8_t byte) const;

 private:
  friend class CutterCompiler;

  // An entry is the row of the next state and flags known at the character.
  static constexpr uint32_t kMatch = 1;  // a match ends before it
  static constexpr uint32_t kStop = 2;   // no match continues
  // The next state repeats itself, with a match before every character, for
  static constexpr uint32_t kSkipLetters = 4;  // a-z and A-Z
  static constexpr uint32_t kSkipLower = 8;    // a-z
  static constexpr uint32_t kSkipUpper = 16;   // A-Z
  static constexpr uint32_t kSkipSpaces = 32;  // spaces
  static constexpr uint32_t kSkips = kSkipLetters | kSkipLower | kSkipUpper | kSkipSpaces;
  static constexpr int kRowShift = 6;
  static constexpr uint8_t kDecode = 255;  // in byte_classes_: the character has more bytes
  static constexpr size_t kBlock = 64;     // code points that differ only in the last byte of their UTF-8

  struct Character {
    unsigned column;
    uint32_t bytes;
  };
  Character character(const char* p, const char* end) const {
    const unsigned column = byte_classes_[static_cast<uint8_t>(*p)];
    return column != kDecode ? Character{column, 1} : decode(p, end);
  }
  /// In most text characters of two or three bytes occur in runs, followed by others.
  Character decode(const char* p, const char* end) const {
    const auto byte = [p](int i) { return static_cast<uint8_t>(p[i]); };
    const auto column = [&](unsigned block, uint8_t last) { return classes_[blocks_[block] * kBlock + (last & 63)]; };
    const uint8_t first = byte(0);
    if (end - p >= 3) {
      const bool two = (byte(1) & 0xC0) == 0x80, three = two && (byte(2) & 0xC0) == 0x80;
      const unsigned block = (first & 15u) << 6 | (byte(1) & 63u);  // of three bytes
      const bool overlong = block < 0x800 / kBlock, surrogates = block - 0xD800 / kBlock < 0x800 / kBlock;
      if (three && first >= 0xE0 && first < 0xF0 && !overlong && !surrogates) return {column(block, byte(2)), 3};
      if (two && first >= 0xC2 && first < 0xE0) return {column(first & 31u, byte(1)), 2};
    }
    return decode_any(p, end);
  }
  Character decode_any(const char* p, const char* end) const;
  unsigned class_of(char32_t code) const { return classes_[blocks_[code / kBlock] * kBlock + code % kBlock]; }

  /// Skips bytes from `first` to `last`, with `fold` set in them, eight at a time.
  template <uint8_t first, uint8_t last, uint8_t fold>
  static const char* skip(const char* p, const char* end) {
    constexpr uint64_t kOnes = 0x0101010101010101, kHigh = 0x80 * kOnes;
    while (end - p >= 8) {
      uint64_t word;
      std::memcpy(&word, p, 8);
      const uint64_t folded = (word | fold * kOnes) & ~kHigh;
      const uint64_t from = folded + (0x80 - first) * kOnes, beyond = folded + (0x7F - last) * kOnes;
      const uint64_t others = (from & ~beyond & ~word & kHigh) ^ kHigh;
      if (others != 0) return p + std::countr_zero(others) / 8;
      p += 8;
    }
    return p;
  }
  static const char* skip(uint32_t entry, const char* p, const char* end) {
    return entry & kSkipLetters ? skip<'a', 'z', 0x20>(p, end) : skip_others(entry, p, end);
  }
  static const char* skip_others(uint32_t entry, const char* p, const char* end);

  void fill_blocks(const std::vector<std::pair<char32_t, uint8_t>>& runs);
  void fill_pairs();
  const char* gap(const char* p, const char* end) const;

  std::vector<uint32_t> table_;
  size_t states_ = 0;
  int columns_shift_ = 0;
  unsigned end_ = 0, invalid_ = 0;  // columns of the end of the text and of an invalid byte
  std::array<uint8_t, 256> byte_classes_{};
  // For the first two bytes of a match: the entry of the second, or kStop if they must be read one by one. Most pieces
  // begin with a space and a letter. pair_classes_ are byte_classes_ with the end's column for kDecode.
  std::array<uint8_t, 256> pair_classes_{};
  std::vector<uint32_t> pairs_;
  std::vector<uint16_t> blocks_;
  std::vector<uint8_t> classes_;
};

[[gnu::always_inline]] inline const char* Cutter::match(const char* p, const char* end) const {
  const uint32_t* const table = table_.data();
  const uint8_t* const byte_classes = byte_classes_.data();
  const char* last = nullptr;
  uint32_t row = 0;
  const auto go_on = [&](uint32_t entry, ptrdiff_t bytes) {
    p += bytes;
    row = entry >> kRowShift;
    if (!(entry & kSkips)) return;
    const char* const before = p;
    p = skip(entry, p, end);
    if (p != before) last = p - 1;
  };
  if (end - p >= 2) {
    const unsigned first = pair_classes_[static_cast<uint8_t>(p[0])],
                   second = pair_classes_[static_cast<uint8_t>(p[1])];
    const uint32_t entry = pairs_[(size_t{first} << columns_shift_) + second];
    if (!(entry & kStop)) {
      if (entry & kMatch) last = p + 1;
      go_on(entry, 2);
    }
  }
  while (p != end) {
    const unsigned column = byte_classes[static_cast<uint8_t>(*p)];
    uint32_t entry;
    ptrdiff_t bytes = 1;
    if (column != kDecode) {
      entry = table[row + column];
    } else {
      const Character next = decode(p, end);
      entry = table[row + next.column];
      bytes = next.bytes;
    }
    if ((entry & (kStop | kMatch)) == (kStop | kMatch)) {
      // A branch, not a select: the processor predicts it and begins the next piece before the tables have been read.
      asm volatile("");
      return p;
    }
    if (entry & kStop) return last;
    if (entry & kMatch) last = p;
    go_on(entry, bytes);
  }
  return table[row + end_] & kMatch ? p : last;
}

}  // namespace trireme
