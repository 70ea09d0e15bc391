#pragma once
// The gradient of an embedding is zero in the rows of ids that no rank saw. Ops::pack_rows() brings the other rows
// together, so that only they travel. A map has one bit per row: row i is bit i mod 64 of word i / 64.

#include <cstdint>
#include <span>
#include <vector>

namespace trireme::touched_rows {

/// Words of a map.
int64_t map_words(int64_t rows);

/// Where elements of [rows, width] lie once the marked rows are packed.
class Places {
 public:
  /// Borrows the map.
  Places(std::span<const int64_t> map, int64_t width);
  /// Of `element`, or, where its row is not marked, of the next one that is; ascending with it.
  int64_t of(int64_t element) const;

 private:
  std::span<const int64_t> map_;
  int64_t width_;
  std::vector<int64_t> before_;  ///< marked rows before each word, and of all
};

}  // namespace trireme::touched_rows
