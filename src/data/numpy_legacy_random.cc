#include "data/numpy_legacy_random.h"

#include <bit>

#include "base/error.h"

namespace trireme {

NumpyRandomState::NumpyRandomState(uint64_t seed) {
  require(seed <= UINT32_MAX, ErrorKind::usage, "seed {} is too large: numpy's RandomState supports 0 to {}", seed,
          UINT32_MAX);
  state_[0] = static_cast<uint32_t>(seed);
  for (uint32_t i = 1; i < kWords; ++i) state_[i] = 1812433253u * (state_[i - 1] ^ state_[i - 1] >> 30) + i;
}

void NumpyRandomState::refill() {
  for (size_t i = 0; i < kWords; ++i) {
    const uint32_t joined = (state_[i] & 0x80000000u) | (state_[(i + 1) % kWords] & 0x7FFFFFFFu);
    state_[i] = state_[(i + kShift) % kWords] ^ joined >> 1 ^ (joined & 1 ? 0x9908B0DFu : 0);
  }
  next_ = 0;
}

uint32_t NumpyRandomState::next32() {
  if (next_ == kWords) refill();
  uint32_t y = state_[next_++];
  y ^= y >> 11;
  y ^= y << 7 & 0x9D2C5680u;
  y ^= y << 15 & 0xEFC60000u;
  return y ^ y >> 18;
}

uint64_t NumpyRandomState::interval(uint64_t largest) {
  if (largest == 0) return 0;
  const uint64_t mask = UINT64_MAX >> std::countl_zero(largest);
  while (true) {
    uint64_t value = next32();
    if (largest > UINT32_MAX) value = value << 32 | next32();
    value &= mask;
    if (value <= largest) return value;
  }
}

}  // namespace trireme
