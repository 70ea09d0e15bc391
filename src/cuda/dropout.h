#pragma once
// What is dropped of a row, in kernels: random words are made again in backward from the same counters, so no mask is
// stored.

#include "cuda/launch.h"
#include "cuda/philox.h"
#include "ops/ops.h"

namespace trireme {

/// Dropout and its factor.
struct DropArguments {
  gpu::Global<const int64_t> sample;
  gpu::Global<const int32_t> position;
  uint64_t key = 0;
  uint32_t threshold = 0;
  float scale = 1;  ///< factor / (1 - rate)

  DropArguments() = default;
  DropArguments(const Dropout& dropout, float factor)
      : key(dropout.key), threshold(gpu::drop_threshold(dropout.rate)), scale(factor / (1.0f - dropout.rate)) {
    if (dropout.rate == 0) return;
    sample = global<int64_t>(dropout.sample);
    position = global<int32_t>(dropout.position);
  }
};

/// x = factor * dropout(x), of a pack of a row.
TRIREME_DEVICE void drop(const DropArguments& a, int64_t row, int64_t channel, gpu::Pack& x) {
  using namespace gpu;
  if (a.threshold > 0) {
    const auto sample = static_cast<uint64_t>(a.sample[row]);
    const auto position = static_cast<uint32_t>(a.position[row]);
    TRIREME_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Words words = philox_words(a.key, static_cast<uint32_t>(channel / 4 + half), position,
                                       static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32));
      TRIREME_UNROLL
      for (int i = 0; i < 4; ++i) {
        float& v = x.v[4 * half + i];
        v = words.w[i] < a.threshold ? 0 : mul_rn(v, a.scale);
      }
    }
  } else if (a.scale != 1) {
    TRIREME_UNROLL
    for (int i = 0; i < kPack; ++i) x.v[i] = mul_rn(x.v[i], a.scale);
  }
}

/// x += residual
TRIREME_DEVICE void add_pack(const gpu::Pack& residual, gpu::Pack& x) {
  TRIREME_UNROLL
  for (int i = 0; i < gpu::kPack; ++i) x.v[i] = gpu::add_rn(x.v[i], residual.v[i]);
}

}  // namespace trireme
