#include "model/memory.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr int64_t kLogitBytes =
    256 << 20;  // 1,300 rows of 50,304 f32 logits: the GEMM is at full speed from a few hundred rows on

BlockSaved take_block(const Spec& spec, DType dtype, int64_t rows, View x, Arena& arena) {
  BlockSaved saved;
  saved.x = x;
  saved.qkv = arena.take(dtype, {rows, spec.heads, 3, spec.head_dim()});
  saved.attention = arena.take(dtype, {rows, spec.heads, spec.head_dim()});
  saved.lse = arena.take(stat_type(dtype), {spec.heads, rows});
  saved.middle = arena.take(dtype, {rows, spec.width});
  saved.inner = arena.take(dtype, {rows, spec.inner_width});
  return saved;
}

}  // namespace

int64_t head_rows_for(const Spec& spec, DType dtype, int64_t rows) {
  const int64_t row_bytes = spec.vocabulary_rows * static_cast<int64_t>(size_of(dtype));
  return std::clamp(kLogitBytes / row_bytes / 128 * 128, int64_t{128}, std::max<int64_t>(rows, 1));
}

ModelMemory::ModelMemory(const Spec& spec, DType dtype, const ModelShape& shape, Arena& arena)
    : head_rows(shape.head_rows > 0 ? shape.head_rows : std::min(shape.rows, head_rows_for(spec, dtype, shape.rows))) {
  const int64_t rows = shape.rows, width = spec.width;
  const DType stat = stat_type(dtype);
  if (shape.training) {
    BlockSaved shared;
    for (int64_t i = 0; i < spec.layers; ++i) {
      const View x = arena.take(dtype, {rows, width});
      if (i == 0 || !shape.recompute) shared = take_block(spec, dtype, rows, x, arena);
      shared.x = x;
      blocks.push_back(shared);
    }
    output = arena.take(dtype, {rows, width});
  } else {
    output = arena.take(dtype, {rows, width});  // each block works in place
    blocks.assign(static_cast<size_t>(spec.layers), take_block(spec, dtype, rows, output, arena));
  }
  work.norm = arena.take(dtype, {rows, width});
  work.branch = arena.take(dtype, {rows, width});
  work.activation = arena.take(dtype, {rows, spec.inner_width});
  work.mean = arena.take(stat, {rows});
  work.rstd = arena.take(stat, {rows});
  work.logits = arena.take(dtype, {head_rows, spec.vocabulary_rows});
  work.head_max = arena.take(stat, {head_rows});
  work.head_sum = arena.take(stat, {head_rows});
  work.head_target = arena.take(stat, {head_rows});
  if (!shape.training) return;
  work.wide = arena.take(dtype, {rows, std::max(spec.inner_width, 3 * width)});
  work.gradient = arena.take(dtype, {rows, width});
  if (shape.accumulates) work.head_gradient = arena.take(stat, {spec.vocabulary_rows, width});
}

}  // namespace trireme
