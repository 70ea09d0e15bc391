#pragma once
// Philox4x32-10 (base/rng.h) in kernels.

#include <cmath>

#include "cuda/kernel.h"

namespace trireme::gpu {

struct Words {
  uint32_t w[4];
};

/// philox(key, {c0, c1, c2, c3})
TRIREME_DEVICE Words philox_words(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  TRIREME_UNROLL
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {{c0, c1, c2, c3}};
}

/// Words below it are dropped (Dropout of ops/ops.h); 0: none.
inline uint32_t drop_threshold(float rate) {
  return static_cast<uint32_t>(std::llround(static_cast<double>(rate) * 0x1p32));
}

}  // namespace trireme::gpu
