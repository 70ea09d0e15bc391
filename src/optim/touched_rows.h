#pragma once
// The gradient of an embedding is zero in the rows of ids that no rank saw. These functions bring the other rows
// together, so that only they travel, and put the sums back. A map has one bit per row: row i is bit i mod 64 of word
// i / 64.

#include <cstdint>
#include <span>
#include <vector>

namespace trireme::touched_rows {

/// Words of a map.
int64_t map_words(int64_t rows);
/// map = rows of x [rows, width] with a bit set (a negative zero counts: only +0 may be left out of a sum).
void mark(const float* x, int64_t rows, int64_t width, std::span<uint64_t> map);
/// Moves the marked rows of x to its front, in order. Returns their number. What lies behind them is left undefined.
int64_t pack(float* x, int64_t rows, int64_t width, std::span<const uint64_t> map);
/// Moves packed rows back to their places, of an array that pack() left and whose other rows were zero before: they are
/// zero again, and where nothing was moved no memory is written.
void unpack(float* x, int64_t rows, int64_t width, std::span<const uint64_t> map);

/// Where elements of [rows, width] lie once the marked rows are packed.
class Places {
 public:
  /// Borrows the map.
  Places(std::span<const uint64_t> map, int64_t width);
  /// Of `element`, or, where its row is not marked, of the next one that is; ascending with it.
  int64_t of(int64_t element) const;

 private:
  std::span<const uint64_t> map_;
  int64_t width_;
  std::vector<int64_t> before_;  ///< marked rows before each word, and of all
};

}  // namespace trireme::touched_rows
