#include "checkpoint/gguf/blocks.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "checkpoint/gguf/k_blocks.h"
#include "tensor/f16.h"

namespace trireme {
namespace {

constexpr int kBlock = 32;

struct Q4Block {
  uint16_t d;
  uint8_t low[kBlock / 2];  // value j and, in the upper half, value j + 16
};
struct Q5Block {
  uint16_t d;
  uint8_t high[4], low[kBlock / 2];  // the fifth bits, little endian
};
struct Q5MinBlock {
  uint16_t d, least;
  uint8_t high[4], low[kBlock / 2];
};
struct Q8Block {
  uint16_t d;
  int8_t values[kBlock];
};

/// The scale of a block is 0 for denormal values: their quotients are infinite or not a number, and quantise to 0.
float finite_quotient(float x) { return std::fabs(x) < 1024 ? x : 0; }

int cut(float x) { return static_cast<int>(finite_quotient(x)); }

/// Halves away from zero, as roundf: 0.5 - 2^-25 reaches the next integer from halves on.
int rounded(float x) {
  const float finite = finite_quotient(x);
  return static_cast<int>(finite + std::copysign(0x1.fffffep-2f, finite));
}

float inverse(float d) { return d != 0 ? 1.0f / d : 0.0f; }

/// The value of the largest magnitude, the first of equals.
float largest(const float* x) {
  float magnitude = 0, value = 0;
  for (int j = 0; j < kBlock; ++j) {
    if (magnitude < std::fabs(x[j])) {
      magnitude = std::fabs(x[j]);
      value = x[j];
    }
  }
  return value;
}

struct Range {
  float least, most;
};
Range range_of(const float* x) {
  Range range{x[0], x[0]};
  for (int j = 1; j < kBlock; ++j) {
    if (x[j] < range.least) range.least = x[j];
    if (x[j] > range.most) range.most = x[j];
  }
  return range;
}

void encode_block(const float* x, Q8Block& block) {
  float magnitude = 0;
  for (int j = 0; j < kBlock; ++j) magnitude = std::max(magnitude, std::fabs(x[j]));
  const float d = magnitude / 127, scale = inverse(d);
  block.d = to_f16(d).bits;
  for (int j = 0; j < kBlock; ++j) block.values[j] = static_cast<int8_t>(rounded(x[j] * scale));
}

void encode_block(const float* x, Q4Block& block) {
  const float d = largest(x) / -8, scale = inverse(d);
  block.d = to_f16(d).bits;
  const auto quantised = [&](float value) { return std::min(15, cut(value * scale + 8.5f)); };
  for (int j = 0; j < kBlock / 2; ++j)
    block.low[j] = static_cast<uint8_t>(quantised(x[j]) | quantised(x[j + kBlock / 2]) << 4);
}

/// `quantised` gives the 5 bits of a value.
template <class Quantise>
void pack_five_bits(const float* x, uint8_t* low, uint8_t* high, Quantise quantised) {
  uint32_t fifth = 0;
  for (int j = 0; j < kBlock / 2; ++j) {
    const int first = quantised(x[j]), second = quantised(x[j + kBlock / 2]);
    low[j] = static_cast<uint8_t>((first & 15) | (second & 15) << 4);
    fifth |= static_cast<uint32_t>(first >> 4 & 1) << j | static_cast<uint32_t>(second >> 4 & 1) << (j + kBlock / 2);
  }
  for (int i = 0; i < 4; ++i) high[i] = static_cast<uint8_t>(fifth >> (8 * i));
}

/// Calls put(place, value) with the 5 bits of every value.
template <class Put>
void unpack_five_bits(const uint8_t* low, const uint8_t* high, Put put) {
  for (int j = 0; j < kBlock; ++j) {
    const int nibble = low[j % (kBlock / 2)] >> (j < kBlock / 2 ? 0 : 4) & 15;
    put(j, static_cast<float>(nibble | (high[j / 8] >> (j % 8) & 1) << 4));
  }
}

void encode_block(const float* x, Q5Block& block) {
  const float d = largest(x) / -16, scale = inverse(d);
  block.d = to_f16(d).bits;
  pack_five_bits(x, block.low, block.high, [&](float value) { return std::min(31, cut(value * scale + 16.5f)); });
}

void encode_block(const float* x, Q5MinBlock& block) {
  const Range range = range_of(x);
  const float d = (range.most - range.least) / 31, scale = inverse(d);
  block.d = to_f16(d).bits;
  block.least = to_f16(range.least).bits;
  pack_five_bits(x, block.low, block.high, [&](float value) { return cut((value - range.least) * scale + 0.5f); });
}

float widened(uint16_t half) { return to_float(f16_t{half}); }

void decode_block(const Q8Block& block, float* out) {
  const float d = widened(block.d);
  for (int j = 0; j < kBlock; ++j) out[j] = static_cast<float>(block.values[j]) * d;
}

void decode_block(const Q4Block& block, float* out) {
  const float d = widened(block.d);
  for (int j = 0; j < kBlock / 2; ++j) {
    out[j] = static_cast<float>((block.low[j] & 15) - 8) * d;
    out[j + kBlock / 2] = static_cast<float>((block.low[j] >> 4) - 8) * d;
  }
}

void decode_block(const Q5Block& block, float* out) {
  const float d = widened(block.d);
  unpack_five_bits(block.low, block.high, [&](int j, float value) { out[j] = (value - 16) * d; });
}

void decode_block(const Q5MinBlock& block, float* out) {
  const float d = widened(block.d), least = widened(block.least);
  unpack_five_bits(block.low, block.high, [&](int j, float value) { out[j] = value * d + least; });
}

struct F32Block {
  float value;
};
struct F16Block {
  f16_t value;
};
struct Bf16Block {
  bf16_t value;
};
void encode_block(const float* x, F32Block& block) { block.value = *x; }
void encode_block(const float* x, F16Block& block) { block.value = to_f16(*x); }
void encode_block(const float* x, Bf16Block& block) { block.value = to_bf16(*x); }
void decode_block(const F32Block& block, float* out) { *out = block.value; }
void decode_block(const F16Block& block, float* out) { *out = to_float(block.value); }
void decode_block(const Bf16Block& block, float* out) { *out = to_float(block.value); }

/// Calls f with a null pointer to the type's block, and the number of its values.
template <class F>
auto with_block(BlockType type, F f) {
  switch (type) {
    case BlockType::f32:
      return f(static_cast<F32Block*>(nullptr), 1);
    case BlockType::f16:
      return f(static_cast<F16Block*>(nullptr), 1);
    case BlockType::bf16:
      return f(static_cast<Bf16Block*>(nullptr), 1);
    case BlockType::q4_0:
      return f(static_cast<Q4Block*>(nullptr), kBlock);
    case BlockType::q5_0:
      return f(static_cast<Q5Block*>(nullptr), kBlock);
    case BlockType::q5_1:
      return f(static_cast<Q5MinBlock*>(nullptr), kBlock);
    case BlockType::q8_0:
      return f(static_cast<Q8Block*>(nullptr), kBlock);
    case BlockType::q4_k:
      return f(static_cast<Q4kBlock*>(nullptr), kSuperBlock);
    case BlockType::q5_k:
      return f(static_cast<Q5kBlock*>(nullptr), kSuperBlock);
    case BlockType::q6_k:
      break;
  }
  return f(static_cast<Q6kBlock*>(nullptr), kSuperBlock);
}

/// Fewer values are not worth a team of threads.
constexpr size_t kWorthATeam = size_t{1} << 16;

}  // namespace

BlockSize block_size(BlockType type) {
  return with_block(type, [](auto* block, size_t values) { return BlockSize{values, sizeof(*block)}; });
}

size_t encoded_bytes(BlockType type, size_t values) {
  const BlockSize size = block_size(type);
  assert(values % size.values == 0);
  return values / size.values * size.bytes;
}

void encode_blocks(BlockType type, std::span<const float> values, std::span<std::byte> out) {
  assert(out.size() == encoded_bytes(type, values.size()));
  with_block(type, [&](auto* none, size_t size) {
#pragma omp parallel for schedule(static) if (values.size() > kWorthATeam)
    for (size_t i = 0; i < values.size() / size; ++i) {
      std::remove_pointer_t<decltype(none)> block;
      encode_block(values.data() + i * size, block);
      std::memcpy(out.data() + i * sizeof block, &block, sizeof block);
    }
  });
}

void decode_blocks(BlockType type, std::span<const std::byte> blocks, std::span<float> out) {
  assert(blocks.size() == encoded_bytes(type, out.size()));
  with_block(type, [&](auto* none, size_t size) {
#pragma omp parallel for schedule(static) if (out.size() > kWorthATeam)
    for (size_t i = 0; i < out.size() / size; ++i) {
      std::remove_pointer_t<decltype(none)> block;
      std::memcpy(&block, blocks.data() + i * sizeof block, sizeof block);
      decode_block(block, out.data() + i * size);
    }
  });
}

}  // namespace trireme
