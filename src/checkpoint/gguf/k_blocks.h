#pragma once
// The blocks of 256 values, with scales of scales.

#include <cstddef>
#include <cstdint>

namespace trireme {

constexpr int kSuperBlock = 256;

/// d, least; six bits of scale and of minimum for each 32 values; the values' low four bits; q5_k: their fifth.
struct Q4kBlock {
  uint16_t d, least;
  uint8_t scales[12], low[kSuperBlock / 2];
};
struct Q5kBlock {
  uint16_t d, least;
  uint8_t scales[12], high[kSuperBlock / 8], low[kSuperBlock / 2];
};
struct Q6kBlock {
  uint8_t low[kSuperBlock / 2], high[kSuperBlock / 4];
  int8_t scales[kSuperBlock / 16];
  uint16_t d;
};

void encode_block(const float* x, Q4kBlock& block);
void encode_block(const float* x, Q5kBlock& block);
void encode_block(const float* x, Q6kBlock& block);
void decode_block(const Q4kBlock& block, float* out);
void decode_block(const Q5kBlock& block, float* out);
void decode_block(const Q6kBlock& block, float* out);

}  // namespace trireme
