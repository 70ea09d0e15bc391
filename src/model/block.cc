#include "model/block.h"

#include <fmt/format.h>

#include <cmath>

namespace trireme {
namespace {

enum Site : uint32_t { kAttentionSite = 1, kBranch1Site = 2, kBranch2Site = 3 };

void normalize(const Norm& norm, const Pass& pass, const Workspace& work, ConstView x, View y) {
  norm.forward(pass, x, y, work.mean, work.rstd);
}

/// dx += the gradient through a norm that was just run by normalize().
void backward(const Norm& norm, const Pass& pass, const Workspace& work, ConstView dy, ConstView x, View dx) {
  norm.backward(pass, dy, x, work.mean, work.rstd, dx);
}

/// work.gradient goes through a norm that nothing flows around.
void backward_through(const Norm& norm, const Pass& pass, const Workspace& work, ConstView x) {
  pass.ops.cast(pass.context, work.gradient, work.incoming);
  pass.ops.zero(pass.context, work.gradient);
  backward(norm, pass, work, work.incoming, x, work.gradient);
}

/// [rows, heads, ...] as [rows, all of them].
template <class AnyView>
AnyView matrix(AnyView v) {
  int64_t columns = 1;
  for (int d = 1; d < v.shape().dims(); ++d) columns *= v.shape()[d];
  return v.reshape({v.rows(), columns});
}

std::string block_name(int64_t index, const char* layer) { return fmt::format("block.{}.{}", index, layer); }

}  // namespace

Block::Block(const Spec& spec, const ParameterViews& views, ConstView rotary, int64_t index)
    : spec_(spec),
      rotary_(rotary),
      index_(index),
      heads_(views.table->layout().share(spec.heads)),
      first_head_(views.table->layout().first(spec.heads)),
      norm1_(views, block_name(index, "norm1"), spec.biases.norm, spec.norm_epsilon),
      norm2_(views, block_name(index, "norm2"), spec.biases.norm, spec.norm_epsilon),
      qkv_(views, block_name(index, "attention.qkv"), spec.biases.qkv),
      attention_out_(views, block_name(index, "attention.out"), spec.biases.attention_out),
      mlp_in_(views, block_name(index, "mlp.in"), spec.biases.mlp_in),
      mlp_out_(views, block_name(index, "mlp.out"), spec.biases.mlp_out) {}

AttentionShape Block::attention_shape(const Pass& pass) const {
  return {.kv_heads = static_cast<int>(heads_),
          .head_dim = static_cast<int>(spec_.head_dim()),
          .causal = spec_.mask == Mask::causal,
          .scale = 1.0f / std::sqrt(static_cast<float>(spec_.head_dim())),
          .offsets = pass.batch.offsets,
          .first_head = static_cast<int>(first_head_)};
}

Dropout Block::attention_dropout(const Pass& pass) const {
  return pass.dropout_at(spec_.attention_dropout, static_cast<uint32_t>(index_), kAttentionSite);
}

Dropout Block::residual_dropout(const Pass& pass, uint32_t site) const {
  const bool on = site != kBranch1Site || spec_.attention_residual_dropout;
  const float rate = on ? spec_.residual_dropout : 0;
  const auto layer = static_cast<uint32_t>(index_);
  return sums_branches_together(pass) ? pass.dropout_at(rate, layer, site) : pass.own_dropout_at(rate, layer, site);
}

/// Parallel branches meet in one sum over the tensor ranks: dropout, which is linear, is applied to each contribution.
bool Block::sums_branches_together(const Pass& pass) const {
  return pass.tensor && spec_.residual == Residual::parallel;
}

void Block::recompute_attention(const Pass& pass, const BlockSaved& saved) const {
  pass.ops.attention(pass.context, saved.qkv, attention_shape(pass), attention_dropout(pass), saved.attention,
                     saved.lse);
}

void Block::attend(const Pass& pass, ConstView input, const BlockSaved& saved, const Workspace& work,
                   const KeyValueCache* cache) const {
  qkv_.forward(pass, input, matrix(saved.qkv));
  if (!rotary_.empty()) pass.ops.rotary(pass.context, saved.qkv, pass.batch.positions, rotary_);
  if (cache) {
    const View layer = cache->layers[static_cast<size_t>(index_ - cache->first_layer)];
    pass.ops.attention_cached(pass.context, saved.qkv, attention_shape(pass), cache->past, layer, saved.attention);
  } else {
    recompute_attention(pass, saved);
  }
  const Dropout dropout = residual_dropout(pass, kBranch1Site);
  if (sums_branches_together(pass)) {
    const View part = pass.contribution_to(work.branch);
    attention_out_.forward_part(pass, matrix(saved.attention), part);
    pass.ops.dropout_add(pass.context, part, {}, dropout, saved.middle);
  } else {
    attention_out_.forward(pass, matrix(saved.attention), work.branch);
    pass.ops.dropout_add(pass.context, work.branch, saved.x, dropout, saved.middle);
  }
}

void Block::feed_forward(const Pass& pass, ConstView input, ConstView residual, const BlockSaved& saved,
                         const Workspace& work, View y) const {
  mlp_in_.forward(pass, input, spec_.activation, saved.inner, work.activation);
  const Dropout dropout = residual_dropout(pass, kBranch2Site);
  if (sums_branches_together(pass)) {
    const View part = pass.contribution_to(work.branch);
    mlp_out_.forward_part(pass, work.activation, part);
    pass.ops.dropout_add(pass.context, part, saved.middle, dropout, part);
    pass.sum(work.branch);
    pass.ops.dropout_add(pass.context, work.branch, saved.x, {}, y);
  } else {
    mlp_out_.forward(pass, work.activation, work.branch);
    pass.ops.dropout_add(pass.context, work.branch, residual, dropout, y);
  }
}

void Block::attend_pre(const Pass& pass, const BlockSaved& saved, const Workspace& work,
                       const KeyValueCache* cache) const {
  normalize(norm1_, pass, work, saved.x, work.norm);
  attend(pass, work.norm, saved, work, cache);
  normalize(norm2_, pass, work, spec_.residual == Residual::parallel ? saved.x : saved.middle, work.norm);
}

void Block::run(const Pass& pass, const BlockSaved& saved, const Workspace& work, const KeyValueCache* cache,
                View y) const {
  if (spec_.norm_place == NormPlace::pre) {
    attend_pre(pass, saved, work, cache);
    feed_forward(pass, work.norm, saved.middle, saved, work, y);
  } else {
    attend(pass, saved.x, saved, work, cache);
    normalize(norm1_, pass, work, saved.middle, work.norm);
    feed_forward(pass, work.norm, work.norm, saved, work, saved.sum);
    normalize(norm2_, pass, work, saved.sum, y);
  }
}

void Block::forward(const Pass& pass, const BlockSaved& saved, const Workspace& work, View y) const {
  run(pass, saved, work, nullptr, y);
}

void Block::recompute(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  if (spec_.norm_place == NormPlace::post) return run(pass, saved, work, nullptr, work.norm);
  attend_pre(pass, saved, work, nullptr);
  mlp_in_.forward(pass, work.norm, saved.inner);
}

void Block::decode(const Pass& pass, const BlockSaved& saved, const Workspace& work, const KeyValueCache& cache,
                   View y) const {
  run(pass, saved, work, &cache, y);
}

void Block::backward_branch(const Pass& pass, const Linear& last, uint32_t site, ConstView dy, ConstView x,
                            const Workspace& work, View dx) const {
  const Dropout dropout = residual_dropout(pass, site);
  const bool together = sums_branches_together(pass);
  ConstView kept = dy;
  if (dropout.rate > 0) {
    const View to = together ? pass.contribution_to(work.branch) : work.branch;
    pass.ops.dropout_backward(pass.context, dy, dropout, to);
    kept = to;
  }
  together ? last.backward_part(pass, kept, x, dx) : last.backward(pass, kept, x, dx);
}

void Block::backward_feed_forward(const Pass& pass, ConstView dy, ConstView input, const BlockSaved& saved,
                                  const Workspace& work) const {
  pass.ops.activation(pass.context, saved.inner, spec_.activation, work.activation);
  backward_branch(pass, mlp_out_, kBranch2Site, dy, work.activation, work, work.inner_gradient);
  pass.ops.activation_backward(pass.context, work.inner_gradient, saved.inner, spec_.activation, work.inner_gradient);
  mlp_in_.backward(pass, work.inner_gradient, input, work.branch);
}

void Block::backward_attend(const Pass& pass, ConstView dy, const BlockSaved& saved, const Workspace& work) const {
  const View dattention = work.norm.first_as(saved.attention.shape());
  backward_branch(pass, attention_out_, kBranch1Site, dy, matrix(saved.attention), work, matrix(dattention));
  pass.ops.attention_backward(pass.context, dattention, saved.qkv, saved.attention, saved.lse, attention_shape(pass),
                              attention_dropout(pass), work.qkv_gradient);
  if (!rotary_.empty()) pass.ops.rotary_backward(pass.context, work.qkv_gradient, pass.batch.positions, rotary_);
}

/// Before gradients through the norms are added to it.
void Block::take_incoming(const Pass& pass, const Workspace& work) const {
  if (pass.sequence_parallel()) return pass.tensor->gather(pass.context, work.gradient, work.incoming);
  pass.ops.cast(pass.context, work.gradient, work.incoming);
}

void Block::backward_pre(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  const bool parallel = spec_.residual == Residual::parallel;
  const View mlp_x = parallel ? saved.x : saved.middle;
  if (parallel) take_incoming(pass, work);
  normalize(norm2_, pass, work, mlp_x, work.norm);
  backward_feed_forward(pass, parallel ? work.incoming : work.gradient, work.norm, saved, work);
  trireme::backward(norm2_, pass, work, work.branch, mlp_x, work.gradient);
  backward_attend(pass, parallel ? work.incoming : work.gradient, saved, work);
  normalize(norm1_, pass, work, saved.x, work.norm);
  qkv_.backward(pass, matrix(work.qkv_gradient), work.norm, work.branch);
  trireme::backward(norm1_, pass, work, work.branch, saved.x, work.gradient);
}

void Block::backward_post(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  normalize(norm2_, pass, work, saved.sum, work.norm);
  backward_through(norm2_, pass, work, saved.sum);
  normalize(norm1_, pass, work, saved.middle, work.norm);
  backward_feed_forward(pass, work.gradient, work.norm, saved, work);
  pass.ops.dropout_add(pass.context, work.branch, work.gradient, {}, work.gradient);
  backward_through(norm1_, pass, work, saved.middle);
  backward_attend(pass, work.gradient, saved, work);
  qkv_.backward(pass, matrix(work.qkv_gradient), saved.x, work.branch);
  pass.ops.dropout_add(pass.context, work.branch, work.gradient, {}, work.gradient);
}

void Block::backward(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  spec_.norm_place == NormPlace::pre ? backward_pre(pass, saved, work) : backward_post(pass, saved, work);
}

}  // namespace trireme
