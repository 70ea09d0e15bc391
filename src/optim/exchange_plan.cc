#include "optim/exchange_plan.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr int64_t kSliceMultiple = 32;  // slices begin on a 64-byte line even as bf16

}  // namespace

int64_t ExchangeChunk::begin(int owner) const { return std::min(bucket_begin + owner * slice + first, bucket_end); }

int64_t ExchangeChunk::length(int owner) const {
  const int64_t slice_end = std::min(bucket_begin + (owner + 1) * slice, bucket_end);
  return std::clamp<int64_t>(slice_end - begin(owner), 0, limit);
}

std::vector<ExchangeChunk> plan_exchange(int64_t count, const std::vector<int64_t>& boundaries, int64_t bucket,
                                         int64_t chunk_limit, int ranks) {
  std::vector<ExchangeChunk> chunks;
  auto boundary = boundaries.begin();
  for (int64_t begin = 0; begin < count;) {
    boundary = std::upper_bound(boundary, boundaries.end(), begin);
    const int64_t end = std::min({begin + bucket, count, boundary == boundaries.end() ? count : *boundary});
    const int64_t share = (end - begin + ranks - 1) / ranks;
    const int64_t slice = (share + kSliceMultiple - 1) / kSliceMultiple * kSliceMultiple;
    for (int64_t first = 0; first < slice; first += chunk_limit) {
      chunks.push_back({begin, end, slice, first, std::min(chunk_limit, slice - first)});
    }
    begin = end;
  }
  return chunks;
}

}  // namespace trireme
