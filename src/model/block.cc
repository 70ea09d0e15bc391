#include "model/block.h"

#include <fmt/format.h>

#include <cmath>

namespace trireme {
namespace {

enum Site : uint32_t { kAttentionSite = 1, kBranch1Site = 2, kBranch2Site = 3 };

/// The first rows of a buffer that was planned for the largest micro-batch.
View first_rows(View buffer, int64_t rows) { return buffer.rows_slice(0, rows); }

/// The first rows of a buffer, seen with another width.
View first_rows(View buffer, int64_t rows, int64_t width) {
  return {buffer.data(), buffer.dtype(), Shape{rows, width}};
}

std::string block_name(int64_t index, const char* layer) { return fmt::format("block.{}.{}", index, layer); }

}  // namespace

Block::Block(const Spec& spec, const ParameterViews& views, int64_t index)
    : spec_(spec),
      index_(index),
      norm1_(views, block_name(index, "norm1"), spec.biases.norm, spec.norm_epsilon),
      norm2_(views, block_name(index, "norm2"), spec.biases.norm, spec.norm_epsilon),
      qkv_(views, block_name(index, "attention.qkv"), spec.biases.qkv),
      attention_out_(views, block_name(index, "attention.out"), spec.biases.attention_out),
      mlp_in_(views, block_name(index, "mlp.in"), spec.biases.mlp_in),
      mlp_out_(views, block_name(index, "mlp.out"), spec.biases.mlp_out) {}

AttentionShape Block::attention_shape(const Pass& pass) const {
  return {.heads = static_cast<int>(spec_.heads),
          .head_dim = static_cast<int>(spec_.head_dim()),
          .causal = true,
          .scale = 1.0f / std::sqrt(static_cast<float>(spec_.head_dim())),
          .offsets = pass.batch.offsets};
}

void Block::attend(const Pass& pass, const BlockSaved& saved, const Workspace& work, const KeyValueCache* cache) const {
  const int64_t rows = pass.batch.rows();
  const View norm = first_rows(work.norm, rows), branch = first_rows(work.branch, rows);
  const View x = first_rows(saved.x, rows), qkv = first_rows(saved.qkv, rows), out = first_rows(saved.attention, rows);
  norm1_.forward(pass, x, norm, first_rows(work.mean, rows), first_rows(work.rstd, rows));
  qkv_.forward(pass, norm, qkv.reshape({rows, 3 * spec_.width}));
  if (cache) {
    const View layer = cache->layers.rows_slice(index_ * cache->sequences, cache->sequences);
    pass.ops.attention_cached(pass.context, qkv, attention_shape(pass), cache->past, layer, out);
  } else {
    const View lse{saved.lse.data(), saved.lse.dtype(), Shape{spec_.heads, rows}};
    pass.ops.attention(pass.context, qkv, attention_shape(pass),
                       pass.dropout_at(spec_.attention_dropout, static_cast<uint32_t>(index_), kAttentionSite), out,
                       lse);
  }
  attention_out_.forward(pass, out.reshape({rows, spec_.width}), branch);
  pass.ops.dropout_add(pass.context, branch, x,
                       pass.dropout_at(spec_.residual_dropout, static_cast<uint32_t>(index_), kBranch1Site),
                       first_rows(saved.middle, rows));
}

void Block::feed_forward(const Pass& pass, const BlockSaved& saved, const Workspace& work, View y) const {
  const int64_t rows = pass.batch.rows();
  const View norm = first_rows(work.norm, rows), branch = first_rows(work.branch, rows),
             activation = first_rows(work.activation, rows);
  const View middle = first_rows(saved.middle, rows);
  norm2_.forward(pass, middle, norm, first_rows(work.mean, rows), first_rows(work.rstd, rows));
  mlp_in_.forward(pass, norm, spec_.activation, first_rows(saved.inner, rows), activation);
  mlp_out_.forward(pass, activation, branch);
  pass.ops.dropout_add(pass.context, branch, middle,
                       pass.dropout_at(spec_.residual_dropout, static_cast<uint32_t>(index_), kBranch2Site), y);
}

void Block::forward(const Pass& pass, const BlockSaved& saved, const Workspace& work, View y) const {
  attend(pass, saved, work, nullptr);
  feed_forward(pass, saved, work, y);
}

void Block::recompute(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  const int64_t rows = pass.batch.rows();
  attend(pass, saved, work, nullptr);
  const View norm = first_rows(work.norm, rows);
  norm2_.forward(pass, first_rows(saved.middle, rows), norm, first_rows(work.mean, rows), first_rows(work.rstd, rows));
  mlp_in_.forward(pass, norm, first_rows(saved.inner, rows));
}

void Block::decode(const Pass& pass, const BlockSaved& saved, const Workspace& work, const KeyValueCache& cache,
                   View y) const {
  attend(pass, saved, work, &cache);
  feed_forward(pass, saved, work, y);
}

void Block::backward_feed_forward(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  const int64_t rows = pass.batch.rows();
  const View gradient = first_rows(work.gradient, rows), branch = first_rows(work.branch, rows),
             norm = first_rows(work.norm, rows);
  const View activation = first_rows(work.activation, rows), inner = first_rows(saved.inner, rows),
             middle = first_rows(saved.middle, rows);
  const View wide = first_rows(work.wide, rows, spec_.inner_width);
  const View mean = first_rows(work.mean, rows), rstd = first_rows(work.rstd, rows);

  const Dropout dropout = pass.dropout_at(spec_.residual_dropout, static_cast<uint32_t>(index_), kBranch2Site);
  if (dropout.rate > 0) pass.ops.dropout_backward(pass.context, gradient, dropout, branch);
  pass.ops.activation(pass.context, inner, spec_.activation, activation);
  mlp_out_.backward(pass, dropout.rate > 0 ? branch : gradient, activation, wide);
  pass.ops.activation_backward(pass.context, wide, inner, spec_.activation, wide);
  norm2_.forward(pass, middle, norm, mean, rstd);
  mlp_in_.backward(pass, wide, norm, branch);
  norm2_.backward(pass, branch, middle, mean, rstd, gradient);
}

void Block::backward_attend(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  const int64_t rows = pass.batch.rows();
  const View gradient = first_rows(work.gradient, rows), branch = first_rows(work.branch, rows),
             norm = first_rows(work.norm, rows);
  const View x = first_rows(saved.x, rows), qkv = first_rows(saved.qkv, rows), out = first_rows(saved.attention, rows);
  const View wide = first_rows(work.wide, rows, 3 * spec_.width);
  const View mean = first_rows(work.mean, rows), rstd = first_rows(work.rstd, rows);
  const View lse{saved.lse.data(), saved.lse.dtype(), Shape{spec_.heads, rows}};

  const Dropout dropout = pass.dropout_at(spec_.residual_dropout, static_cast<uint32_t>(index_), kBranch1Site);
  if (dropout.rate > 0) pass.ops.dropout_backward(pass.context, gradient, dropout, branch);
  attention_out_.backward(pass, dropout.rate > 0 ? branch : gradient, out.reshape({rows, spec_.width}), norm);
  pass.ops.attention_backward(pass.context, norm.reshape(out.shape()), qkv, out, lse, attention_shape(pass),
                              pass.dropout_at(spec_.attention_dropout, static_cast<uint32_t>(index_), kAttentionSite),
                              wide.reshape(qkv.shape()));
  norm1_.forward(pass, x, norm, mean, rstd);
  qkv_.backward(pass, wide, norm, branch);
  norm1_.backward(pass, branch, x, mean, rstd, gradient);
}

void Block::backward(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  backward_feed_forward(pass, saved, work);
  backward_attend(pass, saved, work);
}

}  // namespace trireme
