#include "train/batcher.h"

#include <cassert>

namespace trireme {

Batcher::Batcher(int64_t sequences, int64_t sequence) : sequence_(sequence) {
  const auto rows = static_cast<size_t>(sequences * sequence);
  tokens_.resize(rows);
  targets_.resize(rows);
  positions_.resize(rows);
  types_.resize(rows);
  samples_.resize(rows);
  for (size_t i = 0; i < rows; ++i) positions_[i] = static_cast<int32_t>(static_cast<int64_t>(i) % sequence);
  for (int64_t s = 0; s <= sequences; ++s) offsets_.push_back(static_cast<int32_t>(s * sequence));
}

const Batch& Batcher::fill(const SampleSource& data, SampleStream stream, BatchSlice slice) {
  const int64_t rows = slice.count * sequence_;
  const auto n = static_cast<size_t>(rows);
  assert(n <= tokens_.size());
  const auto length = static_cast<size_t>(sequence_);
  for (size_t i = 0; i < static_cast<size_t>(slice.count); ++i)
    data.fill(stream, slice.first + i, std::span(tokens_).subspan(i * length, length),
              std::span(targets_).subspan(i * length, length));
  for (size_t i = 0; i < n; ++i) samples_[i] = static_cast<int64_t>(slice.first) + static_cast<int64_t>(i) / sequence_;
  batch_.tokens = View(std::span(tokens_).first(n), {rows});
  batch_.targets = View(std::span(targets_).first(n), {rows});
  batch_.positions = View(std::span(positions_).first(n), {rows});
  batch_.types = View(std::span(types_).first(n), {rows});
  batch_.samples = View(std::span(samples_).first(n), {rows});
  batch_.offsets = View(std::span(offsets_).first(static_cast<size_t>(slice.count) + 1), {slice.count + 1});
  return batch_;
}

}  // namespace trireme
