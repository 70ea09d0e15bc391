#pragma once
// (left id, right id) -> 64-bit value: open addressing, no removal.

#include <cstddef>
#include <cstdint>
#include "text/models/zero_table.h"
#include "text/tokenizer.h"

namespace trireme {

class PairMap {
 public:
  static constexpr uint64_t kNone = UINT64_MAX;

  explicit PairMap(size_t expected = 0);
  /// Value of the pair, or kNone.
  uint64_t find(TokenId left, TokenId right) const {
    const uint64_t key = key_of(left, right);
    for (size_t slot = home(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return slots_[slot].value;
      if (slots_[slot].key == kFree) return kNone;
    }
  }
  void prefetch(TokenId left, TokenId right) const { __builtin_prefetch(&slots_[home(key_of(left, right))]); }
  /// Adds the pair with a value other than kNone; returns false and changes nothing if it already exists.
  bool add(TokenId left, TokenId right, uint64_t value);
  size_t size() const { return count_; }
  /// Calls visit(left, right, value) for all pairs, in no order.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Slot& slot : slots_) {
      if (slot.key != kFree) visit(left_of(slot.key), right_of(slot.key), slot.value);
    }
  }

 private:
  static constexpr uint64_t kFree = 0;
  struct Slot {
    uint64_t key, value;
  };
  static uint64_t key_of(TokenId left, TokenId right) { return (uint64_t{left} << 32 | right) + 1; }
  static TokenId left_of(uint64_t key) { return static_cast<TokenId>((key - 1) >> 32); }
  static TokenId right_of(uint64_t key) { return static_cast<TokenId>(key - 1); }
  size_t home(uint64_t key) const { return (key * 0x9E3779B97F4A7C15) >> shift_; }
  void grow();

  ZeroTable<Slot> slots_;
  size_t mask_, count_ = 0;
  int shift_;
};

}  // namespace trireme
