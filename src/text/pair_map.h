#pragma once
// (left id, right id) -> 64-bit value: open addressing, no removal.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "text/tokenizer.h"

namespace trireme {

class PairMap {
 public:
  static constexpr uint64_t kNone = UINT64_MAX;

  explicit PairMap(size_t expected = 0);
  /// Value of the pair, or kNone.
  uint64_t find(TokenId left, TokenId right) const {
    const uint64_t key = uint64_t{left} << 32 | right;
    for (size_t slot = home(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return slots_[slot].value;
      if (slots_[slot].key == kNone) return kNone;
    }
  }
  void prefetch(TokenId left, TokenId right) const { __builtin_prefetch(&slots_[home(uint64_t{left} << 32 | right)]); }
  /// Adds the pair with a value other than kNone; returns false, and changes nothing, if it is there already.
  bool add(TokenId left, TokenId right, uint64_t value);
  size_t size() const { return count_; }
  /// Calls visit(left, right, value) for all pairs, in no order.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Slot& slot : slots_) {
      if (slot.key != kNone) visit(static_cast<TokenId>(slot.key >> 32), static_cast<TokenId>(slot.key), slot.value);
    }
  }

 private:
  struct Slot {
    uint64_t key = kNone, value = kNone;
  };
  size_t home(uint64_t key) const { return (key * 0x9E3779B97F4A7C15) >> shift_; }
  void grow();

  std::vector<Slot> slots_;
  size_t mask_ = 0, count_ = 0;
  int shift_ = 0;
};

}  // namespace trireme
