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

std::vector<ExchangeChunk> plan_exchange(ParameterRange range, int64_t bucket, int64_t chunk_limit, int ranks) {
  std::vector<ExchangeChunk> chunks;
  for (int64_t begin = range.begin; begin < range.end; begin += bucket) {
    const int64_t end = std::min(begin + bucket, range.end);
    const int64_t share = (end - begin + ranks - 1) / ranks;
    const int64_t slice = (share + kSliceMultiple - 1) / kSliceMultiple * kSliceMultiple;
    for (int64_t first = 0; first < slice; first += chunk_limit) {
      chunks.push_back({begin, end, slice, first, std::min(chunk_limit, slice - first)});
    }
  }
  return chunks;
}

}  // namespace trireme
