#pragma once
// The gradient of an embedding is zero in the rows of ids that no rank saw. Ops::pack_rows() packs the other rows, so
// that only they travel. A map has one bit per row: row i is bit i mod 64 of word i / 64.

#include <cstdint>
#include <span>
#include <vector>

namespace trireme::touched_rows {

/// Words of a map.
int64_t map_words(int64_t rows);

/// Places of elements of [rows, width] after the marked rows are packed.
class Places {
 public:
  /// Borrows the map.
  Places(std::span<const int64_t> map, int64_t width);
  /// Place of `element` or, if its row is not marked, of the next marked one; monotonic.
  int64_t of(int64_t element) const;

 private:
  std::span<const int64_t> map_;
  int64_t width_;
  std::vector<int64_t> before_;  ///< marked rows before each word, and in total
};

}  // namespace trireme::touched_rows
