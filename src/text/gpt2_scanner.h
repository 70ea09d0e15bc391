#pragma once
// GPT-2's pre-tokenizer as a hand-written scanner. Its pattern is
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// and every byte belongs to exactly one piece. Invalid bytes count as [^\s\p{L}\p{N}].

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "text/unicode.h"

namespace trireme {

class Gpt2Scanner {
 public:
  explicit Gpt2Scanner(std::string_view text)
      : p_(text.data()), end_(text.data() + text.size()), table_(char_table()) {}

  bool done() const { return p_ == end_; }
  const char* end() const { return end_; }

  /// The next piece; not done().
  std::string_view next() {
    const char* const start = p_;
    if (*p_ == '\'' && contraction()) return {start, static_cast<size_t>(p_ - start)};
    Kind kind = kind_at(p_);
    if (*p_ == ' ') {
      if (p_ + 1 == end_) return take(start, end_);
      const Kind following = kind_at(p_ + 1);
      if (following != Kind::space) {
        ++p_;
        kind = following;
      }
    }
    if (kind == Kind::space) return white_space(start);
    skip(kind);
    return {start, static_cast<size_t>(p_ - start)};
  }

 private:
  enum class Kind : uint8_t { other, letter, number, space };

  static constexpr std::array<Kind, 128> kAscii = [] {
    std::array<Kind, 128> kinds{};
    for (unsigned c = 0; c < 128; ++c) {
      const unsigned lower = c | 0x20;
      if (lower >= 'a' && lower <= 'z') kinds[c] = Kind::letter;
      if (c >= '0' && c <= '9') kinds[c] = Kind::number;
      if (c == ' ' || (c >= 9 && c <= 13)) kinds[c] = Kind::space;
    }
    return kinds;
  }();

  std::string_view take(const char* start, const char* stop) {
    p_ = stop;
    return {start, static_cast<size_t>(stop - start)};
  }

  Kind kind_of(char32_t code) const {
    const uint8_t bits = table_[code];
    if (bits & kLetter) return Kind::letter;
    if (bits & kNumber) return Kind::number;
    return bits & kSpace ? Kind::space : Kind::other;
  }

  Kind kind_at(const char* p) const {
    const auto byte = static_cast<uint8_t>(*p);
    return byte < 0x80 ? kAscii[byte] : kind_of(decode_utf8(p, end_).code);
  }

  /// Bit 7 of each byte that is an ASCII letter, eight at a time.
  static uint64_t letters_of(uint64_t word) {
    constexpr uint64_t kOnes = 0x0101010101010101, kHigh = 0x80 * kOnes;
    const uint64_t lower = (word | 0x20 * kOnes) & ~kHigh;
    const uint64_t from_a = lower + (0x80 - 'a') * kOnes, beyond_z = lower + (0x7F - 'z') * kOnes;
    return (from_a & ~beyond_z) & kHigh & ~word;
  }

  /// Moves p_ over ASCII letters; a run of fewer than eight is found without a loop.
  void skip_letters() {
    while (end_ - p_ >= 8) {
      uint64_t word;
      std::memcpy(&word, p_, 8);
      const uint64_t others = ~letters_of(word) & 0x8080808080808080;
      if (others != 0) {
        p_ += std::countr_zero(others) / 8;
        return;
      }
      p_ += 8;
    }
  }

  /// Moves p_ over a run of one kind.
  void skip(Kind kind) {
    if (kind == Kind::letter) skip_letters();
    while (p_ < end_) {
      const auto byte = static_cast<uint8_t>(*p_);
      if (byte < 0x80) {
        if (kAscii[byte] != kind) return;
        ++p_;
      } else {
        const Decoded next = decode_utf8(p_, end_);
        if (kind_of(next.code) != kind) return;
        p_ += next.length;
      }
    }
  }

  /// At a quote: moves p_ over 's 't 'm 'd 're 've 'll, or stays.
  bool contraction() {
    const ptrdiff_t left = end_ - p_;
    if (left < 2) return false;
    const char first = p_[1];
    if (first == 's' || first == 't' || first == 'm' || first == 'd') {
      p_ += 2;
      return true;
    }
    if (left < 3) return false;
    const char second = p_[2];
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) {
      p_ += 3;
      return true;
    }
    return false;
  }

  /// A run of white space keeps its last character for what follows it, unless it is the only one or ends the text.
  std::string_view white_space(const char* start) {
    const char* last = start;
    while (p_ < end_ && kind_at(p_) == Kind::space) {
      last = p_;
      p_ += decode_utf8(p_, end_).length;
    }
    return take(start, p_ == end_ || last == start ? p_ : last);
  }

  const char* p_;
  const char* end_;
  const CharTable& table_;
};

}  // namespace trireme
