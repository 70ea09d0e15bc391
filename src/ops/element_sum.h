#pragma once
// The sum that parameter hashes are made of (optim/parameter_hash.h, docs/checkpoint-format.md): commutative, so parts
// of a tensor may be summed in any order, by any number of threads, ranks or devices.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

/// Added to the key from element to element; 2^64 / golden ratio, as in splitmix64.
constexpr uint64_t kElementStride = 0x9E3779B97F4A7C15;
/// Odd: different bits of a value stay different. Even: x ^ (x mod 2^32) * a is a bijection of 64 bits.
constexpr uint64_t kElementSpread = 0x9E3779B1;
constexpr std::array<uint64_t, 3> kElementRounds = {0x85EBCA6A, 0xC2B2AE34, 0x27D4EB2E};

/// One element's term: x = place ^ bits * kElementSpread, then for each a of kElementRounds x ^= (x mod 2^32) * a and x
/// rotated by 32 bits. For a fixed place a bijection's image of the bits: no other value has the same term. Every
/// product is one of two 32-bit numbers, which all vector units and devices have.
constexpr uint64_t element_term(uint64_t place, uint32_t bits) {
  uint64_t x = place ^ bits * kElementSpread;
  for (const uint64_t a : kElementRounds) {
    x ^= (x & 0xFFFFFFFF) * a;
    x = x << 32 | x >> 32;
  }
  return x;
}

/// Places of the elements of a box in its complete tensor, in the box's order.
struct ElementPlaces {
  static constexpr int kDims = 4;
  uint64_t key = 0;                       ///< of the tensor
  int64_t first = 0;                      ///< place of the box's first element
  int64_t extents[kDims] = {1, 1, 1, 1};  ///< of the box, the last dim last
  int64_t strides[kDims] = {0, 0, 0, 1};  ///< of the complete tensor

  constexpr int64_t count() const { return extents[0] * extents[1] * extents[2] * extents[3]; }
  constexpr int64_t of(int64_t i) const {
    int64_t place = first;
    for (int d = kDims - 1; d > 0; --d) {
      if (extents[d] == 1) continue;
      place += i % extents[d] * strides[d];
      i /= extents[d];
    }
    return place + i * strides[0];
  }
};

/// sum_i element_term(key + (first + i) kElementStride, bits of values[i]) mod 2^64, i < values.size(). The same on
/// every instruction set.
uint64_t element_sum(uint64_t key, uint64_t first, std::span<const float> values);

}  // namespace trireme
