#pragma once
// The merge step of byte-pair encoding: as long as two neighbours have a merge, the one of lowest rank (of those, the
// leftmost) is applied. Quadratic with a small constant for short words, O(n log n) for long ones.

#include <cstdint>
#include <vector>

#include "text/tokenizer.h"

namespace trireme {

/// (left id, right id) -> rank << 32 | merged id, open addressing.
class MergeTable {
 public:
  static constexpr uint64_t kNone = UINT64_MAX;

  explicit MergeTable(size_t merges = 0);
  /// Returns false, and changes nothing, if the pair has a merge already.
  bool add(TokenId left, TokenId right, uint32_t rank, TokenId merged);
  uint64_t find(TokenId left, TokenId right) const {
    const uint64_t key = uint64_t{left} << 32 | right;
    for (size_t slot = home(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return slots_[slot].value;
      if (slots_[slot].key == kNone) return kNone;
    }
  }
  size_t size() const { return count_; }

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

/// Working memory of merge_symbols().
struct MergeScratch {
  std::vector<uint64_t> values, heap;
  std::vector<uint32_t> previous, next;
};

/// Applies all merges to `symbols` in place. Fewer than 2^32 symbols.
void merge_symbols(const MergeTable& merges, std::vector<TokenId>& symbols, MergeScratch& scratch);

}  // namespace trireme
