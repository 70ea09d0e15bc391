#pragma once
// The gradient of an embedding is zero in the rows of ids that no rank saw. These functions bring the other rows
// together, so that only they travel, and put the sums back. A map has one bit per row: row i is bit i mod 64 of word
// i / 64.

#include <cstdint>
#include <span>

namespace trireme::touched_rows {

/// Words of a map.
int64_t map_words(int64_t rows);
/// map = rows of x [rows, width] with a bit set (a negative zero counts: only +0 may be left out of a sum).
void mark(const float* x, int64_t rows, int64_t width, std::span<uint64_t> map);
/// Moves the marked rows of x to its front, in order. Returns their number. What lies behind them is left undefined.
int64_t pack(float* x, int64_t rows, int64_t width, std::span<const uint64_t> map);
/// Moves packed rows back to their places; all other rows become zero.
void unpack(float* x, int64_t rows, int64_t width, std::span<const uint64_t> map);

}  // namespace trireme::touched_rows
