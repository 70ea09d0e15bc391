#include "optim/touched_rows.h"

#include <bit>

namespace trireme::touched_rows {

int64_t map_words(int64_t rows) { return (rows + 63) / 64; }

Places::Places(std::span<const int64_t> map, int64_t width) : map_(map), width_(width), before_{0} {
  for (const int64_t word : map) before_.push_back(before_.back() + std::popcount(static_cast<uint64_t>(word)));
}

int64_t Places::of(int64_t element) const {
  const int64_t row = element / width_;
  const auto at = static_cast<size_t>(row / 64);
  if (at == map_.size()) return before_.back() * width_;
  const auto word = static_cast<uint64_t>(map_[at]);
  const int64_t packed = before_[at] + std::popcount(word & ((uint64_t{1} << (row % 64)) - 1));
  return packed * width_ + ((word >> (row % 64) & 1) != 0 ? element % width_ : 0);
}

}  // namespace trireme::touched_rows
