#pragma once
// The merge step of byte-pair encoding: as long as two neighbours have a merge, the one of lowest rank (of those, the
// leftmost) is applied. Quadratic with a small constant for short words, O(n log n) for long ones.

#include <cstdint>
#include <utility>
#include <vector>

#include "text/pair_map.h"

namespace trireme {

/// (left id, right id) -> rank and merged id.
class MergeTable {
 public:
  static constexpr uint64_t kNone = PairMap::kNone;

  explicit MergeTable(size_t merges = 0) : pairs_(merges) {}
  /// Returns false, and changes nothing, if the pair has a merge already.
  bool add(TokenId left, TokenId right, uint32_t rank, TokenId merged) {
    return pairs_.add(left, right, uint64_t{rank} << 32 | merged);
  }
  /// rank << 32 | merged id, or kNone.
  uint64_t find(TokenId left, TokenId right) const { return pairs_.find(left, right); }
  size_t size() const { return pairs_.size(); }
  /// The pairs by rank.
  std::vector<std::pair<TokenId, TokenId>> in_order() const;

 private:
  PairMap pairs_;
};

/// Working memory of merge_symbols().
struct MergeScratch {
  std::vector<uint64_t> values, heap;
  std::vector<uint32_t> previous, next;
};

/// Applies all merges to `symbols` in place. Fewer than 2^32 symbols.
void merge_symbols(const MergeTable& merges, std::vector<TokenId>& symbols, MergeScratch& scratch);

}  // namespace trireme
