#include "optim/touched_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace trireme::touched_rows {
namespace {

constexpr int64_t kBlock = 64;  // elements looked at together: four cache lines

bool any_bit(const float* x, int64_t n) {
  uint64_t bits = 0;
  int64_t i = 0;
  for (; i + 2 <= n; i += 2) {
    uint64_t pair;
    std::memcpy(&pair, x + i, sizeof pair);
    bits |= pair;
  }
  if (i < n) bits |= std::bit_cast<uint32_t>(x[i]);
  return bits != 0;
}

bool row_touched(const float* row, int64_t width) {
  for (int64_t first = 0; first < width; first += kBlock) {
    if (any_bit(row + first, std::min(kBlock, width - first))) return true;
  }
  return false;
}

bool is_marked(std::span<const uint64_t> map, int64_t row) {
  return (map[static_cast<size_t>(row / 64)] >> (row % 64) & 1) != 0;
}

void move_row(float* x, int64_t from, int64_t to, int64_t width) {
  if (from != to) std::memcpy(x + to * width, x + from * width, static_cast<size_t>(width) * sizeof(float));
}

}  // namespace

int64_t map_words(int64_t rows) { return (rows + 63) / 64; }

void mark(const float* x, int64_t rows, int64_t width, std::span<uint64_t> map) {
  std::ranges::fill(map, 0);
  for (int64_t row = 0; row < rows; ++row) {
    if (row_touched(x + row * width, width)) map[static_cast<size_t>(row / 64)] |= uint64_t{1} << (row % 64);
  }
}

int64_t pack(float* x, int64_t rows, int64_t width, std::span<const uint64_t> map) {
  int64_t packed = 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (is_marked(map, row)) move_row(x, row, packed++, width);
  }
  return packed;
}

void unpack(float* x, int64_t rows, int64_t width, std::span<const uint64_t> map) {
  int64_t packed = 0;
  for (const uint64_t word : map) packed += std::popcount(word);
  const int64_t moved_over = packed;  // what lies behind was not written: its pages stay as they are
  // From the back: a row's place is never before where it lies packed.
  for (int64_t row = rows - 1; row >= 0; --row) {
    if (is_marked(map, row)) {
      move_row(x, --packed, row, width);
    } else if (row < moved_over) {
      std::fill_n(x + row * width, width, 0.0f);
    }
  }
}

Places::Places(std::span<const uint64_t> map, int64_t width) : map_(map), width_(width), before_{0} {
  for (const uint64_t word : map) before_.push_back(before_.back() + std::popcount(word));
}

int64_t Places::of(int64_t element) const {
  const int64_t row = element / width_;
  const auto word = static_cast<size_t>(row / 64);
  if (word == map_.size()) return before_.back() * width_;
  const int64_t packed = before_[word] + std::popcount(map_[word] & ((uint64_t{1} << (row % 64)) - 1));
  return packed * width_ + (is_marked(map_, row) ? element % width_ : 0);
}

}  // namespace trireme::touched_rows
