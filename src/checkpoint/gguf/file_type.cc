#include "checkpoint/gguf/export.h"

namespace trireme {
namespace {

/// True for the first and last eighth of the layers, and for every third one between.
bool gets_more_bits(int64_t layer, int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

BlockType main_type(GgufFileType type) {
  switch (type) {
    case GgufFileType::f32:
      return BlockType::f32;
    case GgufFileType::f16:
      return BlockType::f16;
    case GgufFileType::bf16:
      return BlockType::bf16;
    case GgufFileType::q4_0:
      return BlockType::q4_0;
    case GgufFileType::q8_0:
      return BlockType::q8_0;
    case GgufFileType::q4_k_m:
      return BlockType::q4_k;
    case GgufFileType::q5_k_m:
      return BlockType::q5_k;
    case GgufFileType::q6_k:
      break;
  }
  return BlockType::q6_k;
}

bool divides(BlockType type, int64_t row_length) {
  return row_length % static_cast<int64_t>(block_size(type).values) == 0;
}

}  // namespace

BlockType wanted_type(GgufFileType type, const TensorPlace& place, size_t dims, int64_t row_length) {
  const std::string_view name = place.name;
  if (dims < 2 || !name.ends_with(".weight") || name.ends_with("_norm.weight") || name == "position_embd.weight")
    return BlockType::f32;
  const BlockType main = main_type(type);
  if (block_size(main).values == 1 || main == BlockType::q8_0) return main;
  if (place.is_head) return divides(main, row_length) ? BlockType::q6_k : BlockType::q8_0;
  const bool mixed = type == GgufFileType::q4_k_m || type == GgufFileType::q5_k_m;
  if (!mixed) return main;
  const bool is_wider = name.ends_with(".attn_v.weight") || name.ends_with(".ffn_down.weight");
  if (is_wider && gets_more_bits(place.layer, place.layers)) return BlockType::q6_k;
  if (name.ends_with(".attn_qkv.weight")) return main == BlockType::q4_k ? BlockType::q5_k : BlockType::q6_k;
  return main;
}

BlockType tensor_type(GgufFileType type, const TensorPlace& place, size_t dims, int64_t row_length) {
  const BlockType wanted = wanted_type(type, place, dims, row_length);
  if (divides(wanted, row_length)) return wanted;
  const BlockType narrower = wanted == BlockType::q4_k   ? BlockType::q5_0
                             : wanted == BlockType::q5_k ? BlockType::q5_1
                                                         : BlockType::q8_0;
  return divides(narrower, row_length) ? narrower : BlockType::f16;
}

}  // namespace trireme
