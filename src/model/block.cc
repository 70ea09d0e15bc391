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

std::string block_name(int64_t index, const char* layer) { return fmt::format("block.{}.{}", index, layer); }

}  // namespace

Block::Block(const Spec& spec, const ParameterViews& views, ConstView rotary, int64_t index)
    : spec_(spec),
      rotary_(rotary),
      index_(index),
      kv_heads_(views.table->layout().share(spec.kv_heads())),
      first_head_(views.table->layout().first(spec.heads)),
      mixer_in_(views, block_name(index, spec.has_state(index) ? "delta.in" : "attention.qkv"),
                !spec.has_state(index) && spec.biases.qkv),
      mixer_out_(views, block_name(index, spec.has_state(index) ? "delta.out" : "attention.out"),
                 !spec.has_state(index) && spec.biases.attention_out),
      mlp_in_(views, block_name(index, "mlp.in"), spec.biases.mlp_in),
      mlp_out_(views, block_name(index, "mlp.out"), spec.biases.mlp_out) {
  if (spec.norm_place != NormPlace::branch) {
    norm1_.emplace(views, block_name(index, "norm1"), spec);
    norm2_.emplace(views, block_name(index, "norm2"), spec);
  }
  if (spec.norms_branches()) {
    branch_norm1_.emplace(views, block_name(index, "branch_norm1"), spec);
    branch_norm2_.emplace(views, block_name(index, "branch_norm2"), spec);
  }
  if (spec.has_state(index)) delta_.emplace(spec, views, index);
  if (spec.has_state(index) || spec.query_keys == QueryKeys::plain) return;
  q_gain_ = LayerParameter(views, block_name(index, "attention.q_norm.weight"));
  k_gain_ = LayerParameter(views, block_name(index, "attention.k_norm.weight"));
}

AttentionShape Block::attention_shape(const Pass& pass) const {
  return {.kv_heads = static_cast<int>(kv_heads_),
          .group = static_cast<int>(spec_.group()),
          .head_dim = static_cast<int>(spec_.head_dim()),
          .causal = spec_.mask == Mask::causal,
          .scale = spec_.score_scale(),
          .offsets = pass.batch.offsets,
          .first_head = static_cast<int>(first_head_),
          .window = spec_.has_window(index_) ? spec_.window : 0,
          .soft_cap = spec_.attention_cap,
          .equal_length = pass.batch.equal_length};
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

QueryKeyNorm Block::query_key_norm() const {
  const bool whole = spec_.query_keys == QueryKeys::projection;
  const int64_t head_dim = spec_.head_dim();
  return {.q = q_gain_.value,
          .k = k_gain_.value,
          .whole = whole,
          .q_count = whole ? spec_.heads * head_dim : head_dim,
          .k_count = whole ? spec_.kv_heads() * head_dim : head_dim,
          .offset = spec_.norm_offset,
          .epsilon = spec_.norm_epsilon};
}

ConstView Block::turned_queries(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  if (q_gain_.value.empty()) return saved.qkv;
  pass.ops.query_key_norm(pass.context, saved.qkv, query_key_norm(), saved.squares, work.turned);
  if (!rotary_.empty()) pass.ops.rotary(pass.context, work.turned, pass.batch.positions, rotary_);
  return work.turned;
}

void Block::recompute_attention(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  if (delta_) return delta_->recompute(pass, saved, work);
  pass.ops.attention(pass.context, turned_queries(pass, saved, work), attention_shape(pass), attention_dropout(pass),
                     saved.attention, saved.lse);
}

void Block::add_branch(const Pass& pass, uint32_t site, ConstView residual, const Workspace& work, View sum,
                       const NormOfSum& then) const {
  const Dropout dropout = residual_dropout(pass, site);
  if (then.norm) {
    then.norm->forward(pass, work.branch, residual, dropout, spec_.residual_scale, sum, then.y, work.mean, work.rstd);
  } else {
    pass.ops.dropout_add(pass.context, work.branch, residual, dropout, sum, spec_.residual_scale);
  }
}

ConstView Block::gate(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  const View gated = work.gated.first_as(saved.attention.shape());
  pass.ops.sigmoid_gate(pass.context, saved.attention, saved.gates, gated);
  return matrix(gated);
}

ConstView Block::mix(const Pass& pass, ConstView input, const BlockSaved& saved, const Workspace& work,
                     const KeyValueCache* cache) const {
  if (delta_) {
    mixer_in_.forward(pass, input, matrix(saved.projected));
    delta_->forward(pass, saved, work, cache ? cache->past : ConstView(), cache ? &cache->of(index_) : nullptr);
    return delta_->gated(pass, work);
  }
  if (spec_.attention_gate) {
    mixer_in_.forward(pass, input, matrix(work.joined));
    pass.ops.split_gates(pass.context, work.joined, saved.qkv, saved.gates);
  } else {
    mixer_in_.forward(pass, input, matrix(saved.qkv));
  }
  if (!q_gain_.value.empty()) {
    pass.ops.query_key_squares(pass.context, saved.qkv, query_key_norm(), saved.squares);
    if (pass.tensor && spec_.query_keys == QueryKeys::projection)
      pass.tensor->sum_statistics(pass.context, saved.squares);
  } else if (!rotary_.empty()) {
    pass.ops.rotary(pass.context, saved.qkv, pass.batch.positions, rotary_);
  }
  if (cache) {
    pass.ops.attention_cached(pass.context, turned_queries(pass, saved, work), attention_shape(pass), cache->past,
                              cache->of(index_).keys_values, saved.attention);
  } else {
    recompute_attention(pass, saved, work);
  }
  return spec_.attention_gate ? gate(pass, saved, work) : matrix(saved.attention);
}

ConstView Block::mixed(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  if (!delta_) return spec_.attention_gate ? gate(pass, saved, work) : matrix(saved.attention);
  delta_->gate(pass, saved, work);
  return delta_->gated(pass, work);
}

void Block::attend(const Pass& pass, ConstView input, const BlockSaved& saved, const Workspace& work,
                   const KeyValueCache* cache, const NormOfSum& then) const {
  const ConstView mixed = mix(pass, input, saved, work, cache);
  if (sums_branches_together(pass)) {
    const View part = pass.contribution_to(work.branch);
    mixer_out_.forward_part(pass, mixed, part);
    pass.ops.dropout_add(pass.context, part, {}, residual_dropout(pass, kBranch1Site), saved.middle,
                         spec_.residual_scale);
  } else {
    mixer_out_.forward(pass, mixed, branch_norm1_ ? saved.branch1 : work.branch);
    if (branch_norm1_) branch_norm1_->forward(pass, saved.branch1, work.branch, work.branch_mean, work.branch_rstd);
    add_branch(pass, kBranch1Site, saved.x, work, saved.middle, then);
  }
}

void Block::feed_forward(const Pass& pass, ConstView input, ConstView residual, const BlockSaved& saved,
                         const Workspace& work, View y, const NormOfSum& then) const {
  if (spec_.gated) {
    mlp_in_.forward(pass, input, saved.inner);
    pass.ops.gated_activation(pass.context, saved.inner, spec_.activation, work.activation);
  } else {
    mlp_in_.forward(pass, input, spec_.activation, saved.inner, work.activation);
  }
  if (sums_branches_together(pass)) {
    const View part = pass.contribution_to(work.branch);
    mlp_out_.forward_part(pass, work.activation, part);
    pass.ops.dropout_add(pass.context, part, saved.middle, residual_dropout(pass, kBranch2Site), part,
                         spec_.residual_scale);
    pass.sum(work.branch);
    pass.ops.dropout_add(pass.context, work.branch, saved.x, {}, y);
  } else {
    mlp_out_.forward(pass, work.activation, branch_norm2_ ? saved.branch2 : work.branch);
    if (branch_norm2_) branch_norm2_->forward(pass, saved.branch2, work.branch, work.branch_mean, work.branch_rstd);
    add_branch(pass, kBranch2Site, residual, work, y, then);
  }
}

ConstView Block::attend_pre(const Pass& pass, const BlockSaved& saved, const Workspace& work,
                            const KeyValueCache* cache) const {
  if (!norm1_) {
    attend(pass, saved.x, saved, work, cache, {});
    return saved.middle;
  }
  normalize(*norm1_, pass, work, saved.x, work.norm);
  const bool parallel = spec_.residual == Residual::parallel;
  attend(pass, work.norm, saved, work, cache, parallel ? NormOfSum{} : NormOfSum{&*norm2_, work.norm});
  if (parallel) normalize(*norm2_, pass, work, saved.x, work.norm);
  return work.norm;
}

void Block::run(const Pass& pass, const BlockSaved& saved, const Workspace& work, const KeyValueCache* cache,
                View y) const {
  if (spec_.norm_place != NormPlace::post) {
    const ConstView input = attend_pre(pass, saved, work, cache);
    feed_forward(pass, input, saved.middle, saved, work, y, {});
  } else {
    attend(pass, saved.x, saved, work, cache, {&*norm1_, work.norm});
    feed_forward(pass, work.norm, work.norm, saved, work, saved.sum, {&*norm2_, y});
  }
}

void Block::forward(const Pass& pass, const BlockSaved& saved, const Workspace& work, View y) const {
  run(pass, saved, work, nullptr, y);
}

void Block::recompute(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  // Norms behind the last product take its result.
  if (spec_.norm_place != NormPlace::pre) return run(pass, saved, work, nullptr, work.norm);
  mlp_in_.forward(pass, attend_pre(pass, saved, work, nullptr), saved.inner);
}

void Block::decode(const Pass& pass, const BlockSaved& saved, const Workspace& work, const KeyValueCache& cache,
                   View y) const {
  run(pass, saved, work, &cache, y);
}

void Block::backward_branch(const Pass& pass, const BranchEnd& end, ConstView dy, ConstView x, const Workspace& work,
                            View dx) const {
  const Dropout dropout = residual_dropout(pass, end.site);
  const bool together = sums_branches_together(pass);
  ConstView kept = dy;
  if (dropout.rate > 0 || spec_.residual_scale != 1) {
    const View to = together ? pass.contribution_to(work.branch) : work.branch;
    pass.ops.dropout_backward(pass.context, dy, dropout, to, spec_.residual_scale);
    kept = to;
  }
  if (end.norm) {
    // Its statistics again; the output is not needed.
    end.norm->forward(pass, end.before_norm, work.incoming, work.branch_mean, work.branch_rstd);
    pass.ops.zero(pass.context, work.incoming);
    end.norm->backward(pass, kept, end.before_norm, work.branch_mean, work.branch_rstd, work.incoming);
    kept = work.incoming;
  }
  together ? end.last.backward_part(pass, kept, x, dx) : end.last.backward(pass, kept, x, dx);
}

void Block::backward_feed_forward(const Pass& pass, ConstView dy, ConstView input, const BlockSaved& saved,
                                  const Workspace& work) const {
  const BranchEnd end{mlp_out_, branch_norm2_, saved.branch2, kBranch2Site};
  if (spec_.gated) {
    pass.ops.gated_activation(pass.context, saved.inner, spec_.activation, work.activation);
    backward_branch(pass, end, dy, work.activation, work, work.activation);
    pass.ops.gated_activation_backward(pass.context, work.activation, saved.inner, spec_.activation,
                                       work.inner_gradient);
  } else {
    pass.ops.activation(pass.context, saved.inner, spec_.activation, work.activation);
    backward_branch(pass, end, dy, work.activation, work, work.inner_gradient);
    return mlp_in_.backward(pass, work.inner_gradient, saved.inner, spec_.activation, work.inner_gradient, input,
                            work.branch);
  }
  mlp_in_.backward(pass, work.inner_gradient, input, work.branch);
}

/// work.qkv_gradient: of normalised queries and keys in, of projected ones out.
void Block::backward_query_keys(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  const QueryKeyNorm norm = query_key_norm();
  pass.ops.query_key_products(pass.context, work.qkv_gradient, saved.qkv, norm, work.products);
  if (pass.tensor && norm.whole) pass.tensor->sum_statistics(pass.context, work.products);
  const auto backward = [&](View dq, View dk, Write write) {
    pass.ops.query_key_norm_backward(pass.context, work.qkv_gradient, saved.qkv, norm, saved.squares, work.products, dq,
                                     dk, write);
  };
  const bool trained = q_gain_.trained() || k_gain_.trained();
  if (!pass.tensor || norm.whole || !trained) return backward(q_gain_.gradient, k_gain_.gradient, pass.write);
  const int64_t head_dim = spec_.head_dim();
  const View q = work.gain_gradient.rows_slice(0, 1).reshape({head_dim}),
             k = work.gain_gradient.rows_slice(1, 1).reshape({head_dim});
  backward(q, k, Write::overwrite);
  pass.tensor->sum_statistics(pass.context, work.gain_gradient);
  for (const auto& [sum, gradient] : {std::pair{q, q_gain_.gradient}, {k, k_gain_.gradient}}) {
    if (gradient.empty()) continue;
    pass.write == Write::overwrite ? pass.ops.cast(pass.context, sum, gradient)
                                   : pass.ops.add(pass.context, sum, gradient);
  }
}

View Block::backward_attend(const Pass& pass, ConstView dy, const BlockSaved& saved, const Workspace& work) const {
  const View dattention = work.attention_gradient, dmixed = matrix(delta_ ? work.delta_gradient : dattention);
  backward_branch(pass, {mixer_out_, branch_norm1_, saved.branch1, kBranch1Site}, dy, mixed(pass, saved, work), work,
                  dmixed);
  if (delta_) {
    delta_->backward(pass, saved, work);
    return matrix(work.projected_gradient);
  }
  if (spec_.attention_gate)
    pass.ops.sigmoid_gate_backward(pass.context, dattention, saved.attention, saved.gates, dattention,
                                   work.gates_gradient);
  pass.ops.attention_backward(pass.context, dattention, turned_queries(pass, saved, work), saved.attention, saved.lse,
                              attention_shape(pass), attention_dropout(pass), work.qkv_gradient);
  if (!rotary_.empty()) pass.ops.rotary_backward(pass.context, work.qkv_gradient, pass.batch.positions, rotary_);
  if (!q_gain_.value.empty()) backward_query_keys(pass, saved, work);
  if (!spec_.attention_gate) return matrix(work.qkv_gradient);
  pass.ops.join_gates(pass.context, work.qkv_gradient, work.gates_gradient, work.joined);
  return matrix(work.joined);
}

/// Before gradients through the norms are added to it.
void Block::take_incoming(const Pass& pass, const Workspace& work) const {
  if (pass.sequence_parallel()) return pass.tensor->gather(pass.context, work.gradient, work.incoming);
  pass.ops.cast(pass.context, work.gradient, work.incoming);
}

/// work.gradient += the gradient of a branch's input, work.branch, through the norm that was just run, if any.
void Block::add_to_gradient(const Pass& pass, const std::optional<Norm>& norm, ConstView x,
                            const Workspace& work) const {
  if (norm) return trireme::backward(*norm, pass, work, work.branch, x, work.gradient);
  pass.ops.dropout_add(pass.context, work.branch, work.gradient, {}, work.gradient);
}

void Block::backward_pre(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  const bool parallel = spec_.residual == Residual::parallel;
  const View mlp_x = parallel ? saved.x : saved.middle;
  const auto input_of = [&](const std::optional<Norm>& norm, View x) {
    if (norm) normalize(*norm, pass, work, x, work.norm);
    return norm ? work.norm : x;
  };
  if (parallel) take_incoming(pass, work);
  const View mlp_input = input_of(norm2_, mlp_x);
  backward_feed_forward(pass, parallel ? work.incoming : work.gradient, mlp_input, saved, work);
  add_to_gradient(pass, norm2_, mlp_x, work);
  const View dmixer = backward_attend(pass, parallel ? work.incoming : work.gradient, saved, work);
  mixer_in_.backward(pass, dmixer, input_of(norm1_, saved.x), work.branch);
  add_to_gradient(pass, norm1_, saved.x, work);
}

void Block::backward_post(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  normalize(*norm2_, pass, work, saved.sum, work.norm);
  backward_through(*norm2_, pass, work, saved.sum);
  normalize(*norm1_, pass, work, saved.middle, work.norm);
  backward_feed_forward(pass, work.gradient, work.norm, saved, work);
  pass.ops.dropout_add(pass.context, work.branch, work.gradient, {}, work.gradient);
  backward_through(*norm1_, pass, work, saved.middle);
  const View dmixer = backward_attend(pass, work.gradient, saved, work);
  mixer_in_.backward(pass, dmixer, saved.x, work.branch);
  pass.ops.dropout_add(pass.context, work.branch, work.gradient, {}, work.gradient);
}

void Block::backward(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  spec_.norm_place == NormPlace::post ? backward_post(pass, saved, work) : backward_pre(pass, saved, work);
}

}  // namespace trireme
