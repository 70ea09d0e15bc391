#pragma once
// The merge step of byte-pair encoding: as long as two neighbours have a merge, the one of lowest rank (of those, the
// leftmost) is applied. Quadratic with a small constant for short words, O(n log n) for long ones.

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "text/pair_map.h"

namespace trireme {

/// (left id, right id) -> rank and merged id.
class MergeTable {
 public:
  static constexpr uint64_t kNone = PairMap::kNone;

  explicit MergeTable(size_t merges = 0) : pairs_(merges), of_bytes_(kBytes * kBytes, kNone) {}
  /// Returns false, and changes nothing, if the pair has a merge already.
  bool add(TokenId left, TokenId right, uint32_t rank, TokenId merged) {
    const uint64_t value = uint64_t{rank} << 32 | merged;
    if (!pairs_.add(left, right, value)) return false;
    if ((left | right) < kBytes) of_bytes_[left * kBytes + right] = value;
    return true;
  }
  void prefetch(TokenId left, TokenId right) const { pairs_.prefetch(left, right); }
  /// rank << 32 | merged id, or kNone.
  uint64_t find(TokenId left, TokenId right) const {
    return (left | right) < kBytes ? of_bytes_[left * kBytes + right] : pairs_.find(left, right);
  }
  size_t size() const { return pairs_.size(); }
  /// The pairs by rank.
  std::vector<std::pair<TokenId, TokenId>> in_order() const;

 private:
  // The first ids are the 256 bytes in most vocabularies, and every word begins with their pairs: these have a table
  // that stays in a core's own cache.
  static constexpr TokenId kBytes = 256;

  PairMap pairs_;
  std::vector<uint64_t> of_bytes_;
};

/// Working memory of the functions below.
struct MergeScratch {
  std::vector<uint64_t> values, heap;
  std::vector<uint32_t> previous, next;
  std::vector<TokenId> window, joint;
  std::vector<uint32_t> lengths;
};

/// Applies merges to `symbols` in place until there are none, or `least` symbols are left. Fewer than 2^32 symbols.
void merge_symbols(const MergeTable& merges, std::vector<TokenId>& symbols, MergeScratch& scratch, size_t least = 1);

/// More symbols than this are better merged in windows, whose heap stays in a core's own cache.
constexpr size_t kMergeWindow = size_t{1} << 8;
/// Appends the symbols number `from` to `from` + `count` of a word to `symbols`.
using ReadSymbols = std::function<void(size_t from, size_t count, std::vector<TokenId>& symbols)>;
/// Appends to `out` what merge_symbols() makes of a word of `count` symbols, with memory for a window of it.
void merge_in_windows(const MergeTable& merges, size_t count, const ReadSymbols& read, MergeScratch& scratch,
                      std::vector<TokenId>& out, size_t window = kMergeWindow);

}  // namespace trireme
