#include "model/memory.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr int64_t kLogitRows = 640;         // the GEMM is at full speed from a few hundred rows on
constexpr int64_t kLogitBytes = 256 << 20;  // fewer rows where the vocabulary is large

BlockSaved take_block(const Spec& spec, DType dtype, int64_t rows, View x, View shared_middle, Arena& arena) {
  BlockSaved saved;
  saved.x = x;
  saved.qkv = arena.take(dtype, {rows, spec.heads, 3, spec.head_dim()});
  saved.attention = arena.take(dtype, {rows, spec.heads, spec.head_dim()});
  saved.lse = arena.take(stat_type(dtype), {spec.heads, rows});
  saved.middle = shared_middle.empty() ? arena.take(dtype, {rows, spec.width}) : shared_middle;
  saved.inner = arena.take(dtype, {rows, spec.inner_width});
  if (spec.norm_place == NormPlace::post) saved.sum = arena.take(dtype, {rows, spec.width});
  return saved;
}

EmbeddingSaved take_embedding(const Spec& spec, DType dtype, int64_t rows, Arena& arena) {
  EmbeddingSaved saved;
  if (spec.projected()) saved.tokens = arena.take(dtype, {rows, spec.token_width()});
  if (spec.embedding_norm) saved.sum = arena.take(dtype, {rows, spec.width});
  return saved;
}

HeadSaved take_head(const Spec& spec, DType dtype, int64_t rows, Arena& arena) {
  HeadSaved saved;
  if (spec.head != HeadKind::language_model) {
    saved.pre = arena.take(dtype, {rows, spec.width});
    saved.hidden = arena.take(dtype, {rows, spec.width});
  }
  if (spec.head == HeadKind::classifier) {
    saved.first = arena.take(dtype, {rows, spec.width});
    saved.first_gradient = arena.take(dtype, {rows, spec.width});
  }
  if (spec.projected()) {
    saved.narrow = arena.take(dtype, {rows, spec.token_width()});
    saved.narrow_gradient = arena.take(dtype, {rows, spec.token_width()});
  }
  return saved;
}

}  // namespace

int64_t head_rows_for(const Spec& spec, DType dtype, int64_t rows) {
  const int64_t row_bytes = spec.vocabulary_rows * static_cast<int64_t>(size_of(dtype));
  return std::min(std::clamp(kLogitBytes / row_bytes / 128 * 128, int64_t{128}, kLogitRows),
                  std::max<int64_t>(rows, 1));
}

/// No block is at work while the head is, so what they need within a branch and the logits share their place.
void ModelMemory::take_block_or_head(const Spec& spec, DType dtype, const ModelShape& shape, Arena& arena) {
  const size_t start = arena.mark();
  work.activation = arena.take(dtype, {shape.rows, spec.inner_width});
  if (shape.training) work.wide = arena.take(dtype, {shape.rows, std::max(spec.inner_width, 3 * spec.width)});
  const size_t blocks_end = arena.mark();
  arena.release(start);
  work.logits = spec.has_decoder() ? arena.take(dtype, {head_rows, spec.vocabulary_rows})
                                   : arena.take(dtype, {shape.rows, spec.classes});
  arena.release(std::max(blocks_end, arena.mark()));
}

ModelMemory::ModelMemory(const Spec& spec, DType dtype, const ModelShape& shape, Arena& arena)
    : head_rows(!spec.has_decoder()   ? shape.rows
                : shape.head_rows > 0 ? shape.head_rows
                                      : std::min(shape.rows, head_rows_for(spec, dtype, shape.rows))) {
  const int64_t rows = shape.rows, width = spec.width;
  const DType stat = stat_type(dtype);
  embedding = take_embedding(spec, dtype, rows, arena);
  View middle;
  if (spec.residual == Residual::parallel) middle = arena.take(dtype, {rows, width});
  if (shape.training) {
    BlockSaved shared;
    for (int64_t i = 0; i < spec.layers; ++i) {
      const View x = arena.take(dtype, {rows, width});
      if (i == 0 || !shape.recompute) shared = take_block(spec, dtype, rows, x, middle, arena);
      shared.x = x;
      blocks.push_back(shared);
    }
    output = arena.take(dtype, {rows, width});
  } else {
    output = arena.take(dtype, {rows, width});  // each block works in place
    blocks.assign(static_cast<size_t>(spec.layers), take_block(spec, dtype, rows, output, middle, arena));
  }
  head = take_head(spec, dtype, rows, arena);
  if (spec.position == Position::rotary) rotary = arena.take(stat, {spec.context, spec.rotary_dims});
  work.norm = arena.take(dtype, {rows, width});
  work.branch = arena.take(dtype, {rows, width});
  work.mean = arena.take(stat, {rows});
  work.rstd = arena.take(stat, {rows});
  work.head_max = arena.take(stat, {head_rows});
  work.head_sum = arena.take(stat, {head_rows});
  work.head_target = arena.take(stat, {head_rows});
  take_block_or_head(spec, dtype, shape, arena);
  if (!shape.training) return;
  work.gradient = arena.take(dtype, {rows, width});
  if (spec.norm_place == NormPlace::post || spec.residual == Residual::parallel)
    work.incoming = arena.take(dtype, {rows, width});
  if (!shape.accumulates || !spec.has_decoder()) return;
  work.head_gradient = arena.take(stat, {spec.vocabulary_rows, spec.token_width()});
  if (spec.head == HeadKind::masked_language_model) work.head_bias_gradient = arena.take(stat, {spec.vocabulary_rows});
}

}  // namespace trireme
