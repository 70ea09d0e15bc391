#include "data/numpy_random.h"

#include <bit>
#include <cstddef>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

constexpr size_t kPool = 4;

uint32_t hash_word(uint32_t value, uint32_t& constant, uint32_t multiplier) {
  value ^= constant;
  constant *= multiplier;
  value *= constant;
  return value ^ value >> 16;
}

uint32_t mix(uint32_t x, uint32_t y) {
  const uint32_t result = 0xCA01F9DD * x - 0x4973F715 * y;
  return result ^ result >> 16;
}

/// SeedSequence(seed).generate_state(4, uint64).
std::array<uint64_t, 4> seed_state(uint64_t seed) {
  std::array<uint32_t, kPool> pool{};
  const std::array<uint32_t, kPool> entropy{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), 0, 0};
  uint32_t constant = 0x43B0D7E5;
  for (size_t i = 0; i < kPool; ++i) pool[i] = hash_word(entropy[i], constant, 0x931E8875);
  for (size_t from = 0; from < kPool; ++from) {
    for (size_t to = 0; to < kPool; ++to) {
      if (from != to) pool[to] = mix(pool[to], hash_word(pool[from], constant, 0x931E8875));
    }
  }
  std::array<uint64_t, 4> state{};
  constant = 0x8B51F9DD;
  for (size_t i = 0; i < 2 * state.size(); ++i)
    state[i / 2] |= uint64_t{hash_word(pool[i % kPool], constant, 0x58F38DED)} << (i % 2 * 32);
  return state;
}

}  // namespace

NumpyGenerator::NumpyGenerator(uint64_t seed) {
  const auto s = seed_state(seed);
  increment_ = (static_cast<u128>(s[2]) << 64 | s[3]) << 1 | 1;
  next64();
  state_ += static_cast<u128>(s[0]) << 64 | s[1];
  next64();
}

uint64_t NumpyGenerator::next64() {
  constexpr u128 kMultiplier = static_cast<u128>(0x2360ED051FC65DA4) << 64 | 0x4385DF649FCCF645;
  state_ = state_ * kMultiplier + increment_;
  const auto high = static_cast<uint64_t>(state_ >> 64), low = static_cast<uint64_t>(state_);
  return std::rotr(high ^ low, static_cast<int>(state_ >> 122));
}

uint32_t NumpyGenerator::next32() {
  if (std::exchange(has_half_, !has_half_)) return half_;
  const uint64_t both = next64();
  half_ = static_cast<uint32_t>(both >> 32);
  return static_cast<uint32_t>(both);
}

uint64_t NumpyGenerator::interval(uint64_t largest) {
  if (largest == 0) return 0;
  const uint64_t mask = UINT64_MAX >> std::countl_zero(largest);
  while (true) {
    const uint64_t value = (largest <= UINT32_MAX ? next32() : next64()) & mask;
    if (value <= largest) return value;
  }
}

std::vector<uint64_t> NumpyGenerator::permutation(uint64_t n) {
  std::vector<uint64_t> order(n);
  std::iota(order.begin(), order.end(), uint64_t{0});
  for (uint64_t i = n; i-- > 1;) std::swap(order[i], order[interval(i)]);
  return order;
}

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
