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

void normalize(const Norm& norm, const Pass& pass, const Workspace& work, ConstView x, View y) {
  norm.forward(pass, x, y, first_rows(work.mean, x.rows()), first_rows(work.rstd, x.rows()));
}

/// dx += the gradient through a norm that was just run by normalize().
void backward(const Norm& norm, const Pass& pass, const Workspace& work, ConstView dy, ConstView x, View dx) {
  norm.backward(pass, dy, x, first_rows(work.mean, x.rows()), first_rows(work.rstd, x.rows()), dx);
}

/// work.gradient goes through a norm that nothing flows around.
void backward_through(const Norm& norm, const Pass& pass, const Workspace& work, ConstView x) {
  const View gradient = first_rows(work.gradient, x.rows()), incoming = first_rows(work.incoming, x.rows());
  pass.ops.cast(pass.context, gradient, incoming);
  pass.ops.zero(pass.context, gradient);
  backward(norm, pass, work, incoming, x, gradient);
}

std::string block_name(int64_t index, const char* layer) { return fmt::format("block.{}.{}", index, layer); }

}  // namespace

Block::Block(const Spec& spec, const ParameterViews& views, ConstView rotary, int64_t index)
    : spec_(spec),
      rotary_(rotary),
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
          .causal = spec_.mask == Mask::causal,
          .scale = 1.0f / std::sqrt(static_cast<float>(spec_.head_dim())),
          .offsets = pass.batch.offsets};
}

Dropout Block::attention_dropout(const Pass& pass) const {
  return pass.dropout_at(spec_.attention_dropout, static_cast<uint32_t>(index_), kAttentionSite);
}

Dropout Block::residual_dropout(const Pass& pass, uint32_t site) const {
  const bool on = site != kBranch1Site || spec_.attention_residual_dropout;
  return pass.dropout_at(on ? spec_.residual_dropout : 0, static_cast<uint32_t>(index_), site);
}

void Block::attend(const Pass& pass, ConstView input, const BlockSaved& saved, const Workspace& work,
                   const KeyValueCache* cache) const {
  const int64_t rows = pass.batch.rows();
  const View branch = first_rows(work.branch, rows), qkv = first_rows(saved.qkv, rows),
             out = first_rows(saved.attention, rows);
  qkv_.forward(pass, input, qkv.reshape({rows, 3 * spec_.width}));
  if (!rotary_.empty()) pass.ops.rotary(pass.context, qkv, pass.batch.positions, rotary_);
  if (cache) {
    const View layer = cache->layers.rows_slice(index_ * cache->sequences, cache->sequences);
    pass.ops.attention_cached(pass.context, qkv, attention_shape(pass), cache->past, layer, out);
  } else {
    const View lse{saved.lse.data(), saved.lse.dtype(), Shape{spec_.heads, rows}};
    pass.ops.attention(pass.context, qkv, attention_shape(pass), attention_dropout(pass), out, lse);
  }
  attention_out_.forward(pass, out.reshape({rows, spec_.width}), branch);
  pass.ops.dropout_add(pass.context, branch, first_rows(saved.x, rows), residual_dropout(pass, kBranch1Site),
                       first_rows(saved.middle, rows));
}

void Block::feed_forward(const Pass& pass, ConstView input, ConstView residual, const BlockSaved& saved,
                         const Workspace& work, View y) const {
  const int64_t rows = pass.batch.rows();
  const View branch = first_rows(work.branch, rows), activation = first_rows(work.activation, rows);
  mlp_in_.forward(pass, input, spec_.activation, first_rows(saved.inner, rows), activation);
  mlp_out_.forward(pass, activation, branch);
  pass.ops.dropout_add(pass.context, branch, residual, residual_dropout(pass, kBranch2Site), y);
}

void Block::attend_pre(const Pass& pass, const BlockSaved& saved, const Workspace& work,
                       const KeyValueCache* cache) const {
  const int64_t rows = pass.batch.rows();
  const View x = first_rows(saved.x, rows), norm = first_rows(work.norm, rows);
  normalize(norm1_, pass, work, x, norm);
  attend(pass, norm, saved, work, cache);
  normalize(norm2_, pass, work, spec_.residual == Residual::parallel ? x : first_rows(saved.middle, rows), norm);
}

void Block::run(const Pass& pass, const BlockSaved& saved, const Workspace& work, const KeyValueCache* cache,
                View y) const {
  const int64_t rows = pass.batch.rows();
  const View x = first_rows(saved.x, rows), middle = first_rows(saved.middle, rows), norm = first_rows(work.norm, rows);
  if (spec_.norm_place == NormPlace::pre) {
    attend_pre(pass, saved, work, cache);
    feed_forward(pass, norm, middle, saved, work, y);
  } else {
    const View sum = first_rows(saved.sum, rows);
    attend(pass, x, saved, work, cache);
    normalize(norm1_, pass, work, middle, norm);
    feed_forward(pass, norm, norm, saved, work, sum);
    normalize(norm2_, pass, work, sum, y);
  }
}

void Block::forward(const Pass& pass, const BlockSaved& saved, const Workspace& work, View y) const {
  run(pass, saved, work, nullptr, y);
}

void Block::recompute(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  const int64_t rows = pass.batch.rows();
  const View norm = first_rows(work.norm, rows);
  if (spec_.norm_place == NormPlace::post) return run(pass, saved, work, nullptr, norm);
  attend_pre(pass, saved, work, nullptr);
  mlp_in_.forward(pass, norm, first_rows(saved.inner, rows));
}

void Block::decode(const Pass& pass, const BlockSaved& saved, const Workspace& work, const KeyValueCache& cache,
                   View y) const {
  run(pass, saved, work, &cache, y);
}

void Block::backward_feed_forward(const Pass& pass, ConstView dy, ConstView input, const BlockSaved& saved,
                                  const Workspace& work) const {
  const int64_t rows = pass.batch.rows();
  const View branch = first_rows(work.branch, rows), activation = first_rows(work.activation, rows),
             inner = first_rows(saved.inner, rows);
  const View wide = first_rows(work.wide, rows, spec_.inner_width);
  const Dropout dropout = residual_dropout(pass, kBranch2Site);
  if (dropout.rate > 0) pass.ops.dropout_backward(pass.context, dy, dropout, branch);
  pass.ops.activation(pass.context, inner, spec_.activation, activation);
  mlp_out_.backward(pass, dropout.rate > 0 ? branch : dy, activation, wide);
  pass.ops.activation_backward(pass.context, wide, inner, spec_.activation, wide);
  mlp_in_.backward(pass, wide, input, branch);
}

void Block::backward_attend(const Pass& pass, ConstView dy, const BlockSaved& saved, const Workspace& work) const {
  const int64_t rows = pass.batch.rows();
  const View branch = first_rows(work.branch, rows), norm = first_rows(work.norm, rows);
  const View qkv = first_rows(saved.qkv, rows), out = first_rows(saved.attention, rows);
  const View wide = first_rows(work.wide, rows, 3 * spec_.width).reshape(qkv.shape());
  const View lse{saved.lse.data(), saved.lse.dtype(), Shape{spec_.heads, rows}};
  const Dropout dropout = residual_dropout(pass, kBranch1Site);
  if (dropout.rate > 0) pass.ops.dropout_backward(pass.context, dy, dropout, branch);
  attention_out_.backward(pass, dropout.rate > 0 ? branch : dy, out.reshape({rows, spec_.width}), norm);
  pass.ops.attention_backward(pass.context, norm.reshape(out.shape()), qkv, out, lse, attention_shape(pass),
                              attention_dropout(pass), wide);
  if (!rotary_.empty()) pass.ops.rotary_backward(pass.context, wide, pass.batch.positions, rotary_);
}

void Block::backward_pre(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  const int64_t rows = pass.batch.rows();
  const View gradient = first_rows(work.gradient, rows), branch = first_rows(work.branch, rows),
             norm = first_rows(work.norm, rows), x = first_rows(saved.x, rows);
  const bool parallel = spec_.residual == Residual::parallel;
  const View mlp_x = parallel ? x : first_rows(saved.middle, rows);
  View incoming = gradient;
  if (parallel) {  // attention's own gradient, before the MLP's is added to it
    incoming = first_rows(work.incoming, rows);
    pass.ops.cast(pass.context, gradient, incoming);
  }
  normalize(norm2_, pass, work, mlp_x, norm);
  backward_feed_forward(pass, gradient, norm, saved, work);
  trireme::backward(norm2_, pass, work, branch, mlp_x, gradient);
  backward_attend(pass, incoming, saved, work);
  normalize(norm1_, pass, work, x, norm);
  qkv_.backward(pass, first_rows(work.wide, rows, 3 * spec_.width), norm, branch);
  trireme::backward(norm1_, pass, work, branch, x, gradient);
}

void Block::backward_post(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  const int64_t rows = pass.batch.rows();
  const View gradient = first_rows(work.gradient, rows), branch = first_rows(work.branch, rows),
             norm = first_rows(work.norm, rows), middle = first_rows(saved.middle, rows),
             sum = first_rows(saved.sum, rows);
  normalize(norm2_, pass, work, sum, norm);
  backward_through(norm2_, pass, work, sum);
  normalize(norm1_, pass, work, middle, norm);
  backward_feed_forward(pass, gradient, norm, saved, work);
  pass.ops.dropout_add(pass.context, branch, gradient, {}, gradient);
  backward_through(norm1_, pass, work, middle);
  backward_attend(pass, gradient, saved, work);
  qkv_.backward(pass, first_rows(work.wide, rows, 3 * spec_.width), first_rows(saved.x, rows), branch);
  pass.ops.dropout_add(pass.context, branch, gradient, {}, gradient);
}

void Block::backward(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  spec_.norm_place == NormPlace::pre ? backward_pre(pass, saved, work) : backward_post(pass, saved, work);
}

}  // namespace trireme
