#pragma once
// The merge step of byte-pair encoding: while adjacent symbols have a merge, applies the one of lowest rank (the
// leftmost among equals). Quadratic with a small constant for short words, O(n log n) for long ones.

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "text/models/pair_map.h"

namespace trireme {

/// (left id, right id) -> rank and merged id.
class MergeTable {
 public:
  static constexpr uint64_t kNone = PairMap::kNone;

  explicit MergeTable(size_t merges = 0) : pairs_(merges), of_bytes_(kBytes * kBytes, kNone) {}
  /// Returns false and changes nothing if the pair already has a merge.
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
  // In most vocabularies the first ids are the 256 bytes, and every word begins with their pairs: they have a table
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

/// Applies merges to `symbols` in place until none is left, or until `least` symbols are left. Fewer than 2^32 symbols.
void merge_symbols(const MergeTable& merges, std::vector<TokenId>& symbols, MergeScratch& scratch, size_t least = 1);

/// More symbols than this are faster in windows, whose heap stays in a core's own cache.
constexpr size_t kMergeWindow = size_t{1} << 8;
/// Appends the symbols number `from` to `from` + `count` of a word to `symbols`.
using ReadSymbols = std::function<void(size_t from, size_t count, std::vector<TokenId>& symbols)>;
/// Appends the result of merge_symbols() for a word of `count` symbols to `out`, with memory for one window.
void merge_in_windows(const MergeTable& merges, size_t count, const ReadSymbols& read, MergeScratch& scratch,
                      std::vector<TokenId>& out, size_t window = kMergeWindow);

}  // namespace trireme
