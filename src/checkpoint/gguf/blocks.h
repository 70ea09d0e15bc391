#pragma once
// The element types of GGUF files: f32, f16, bf16, and blocks of quantised values. The bytes are those of ggml's
// reference quantisers (ggml-quants.c, quantize_row_*_ref), on every instruction set and for any number of threads.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/names.h"

namespace trireme {

/// The numbers are those of GGUF files.
enum class BlockType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,   ///< d q: 32 values of 4 bits, one f16 scale
  q5_0 = 6,   ///< d q: 5 bits
  q5_1 = 7,   ///< d q + m: 5 bits
  q8_0 = 8,   ///< d q: 8 bits
  q4_k = 12,  ///< d s q - m t: 256 values of 4 bits; s and t are 6 bits for each 32
  q5_k = 13,  ///< the same with 5 bits
  q6_k = 14,  ///< d s q: 256 values of 6 bits; s is 8 bits for each 16
  bf16 = 30,
};
template <>
struct Names<BlockType> {
  static constexpr Named<BlockType> kAll[] = {
      {"f32", BlockType::f32},   {"f16", BlockType::f16},   {"bf16", BlockType::bf16}, {"q8_0", BlockType::q8_0},
      {"q4_0", BlockType::q4_0}, {"q5_0", BlockType::q5_0}, {"q5_1", BlockType::q5_1}, {"q4_k", BlockType::q4_k},
      {"q5_k", BlockType::q5_k}, {"q6_k", BlockType::q6_k}};
};

/// Values of a block, and its bytes.
struct BlockSize {
  size_t values, bytes;
};
BlockSize block_size(BlockType type);

/// Bytes of that many values, a multiple of the block's.
size_t encoded_bytes(BlockType type, size_t values);
/// values.size() is a multiple of the block's, out has encoded_bytes() of it.
void encode_blocks(BlockType type, std::span<const float> values, std::span<std::byte> out);
/// The inverse; exact for f32, f16 and bf16.
void decode_blocks(BlockType type, std::span<const std::byte> blocks, std::span<float> out);

}  // namespace trireme
