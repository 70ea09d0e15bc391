#include "model/embedding.h"

#include "tensor/f16.h"

namespace trireme {
namespace {

constexpr uint32_t kEmbeddingSite = 0;

}  // namespace

Embedding::Embedding(const Spec& spec, const ParameterViews& views)
    : spec_(spec), token_(views, "embedding.token.weight") {
  const Parameter& matrix = views.table->find("embedding.token.weight");
  if (!matrix.is_whole()) part_ = {matrix.box.begin[0], matrix.global_shape[0]};
  // The tied matrix's own gradient place is the head's sum; the embedding's part has its own place after all
  // parameters.
  if (views.table->sums_twice() && !views.gradients.empty()) {
    const Shape shape = token_.value.shape();
    token_.gradient = views.gradients.rows_slice(views.table->trained_count(), shape.count()).reshape(shape);
  }
  filled_later_ = spec.tied_head && !views.table->layout().part.head;
  if (spec.position == Position::learned) {
    const LayerParameter all(views, "embedding.position.weight");
    position_.value = all.value.rows_slice(spec.position_offset, spec.context);
    if (!all.gradient.empty()) {
      position_.gradient = all.gradient.rows_slice(spec.position_offset, spec.context);
      if (spec.position_offset > 0) unused_positions_ = all.gradient.rows_slice(0, spec.position_offset);
    }
  }
  if (spec.token_types > 0) type_ = LayerParameter(views, "embedding.type.weight");
  if (spec.projected()) project_.emplace(views, "embedding.project", false);
  if (spec.embedding_norm) norm_.emplace(views, "embedding.norm", spec);
}

float Embedding::scale_in(DType dtype) const {
  return dtype == DType::bf16  ? to_float(to_bf16(spec_.embedding_scale))
         : dtype == DType::f16 ? to_float(to_f16(spec_.embedding_scale))
                               : spec_.embedding_scale;
}

void Embedding::look_up(const Pass& pass, View y) const {
  if (!part_) return pass.ops.embedding(pass.context, pass.batch.tokens, {}, token_.value, {}, y);
  pass.ops.embedding_part(pass.context, pass.batch.tokens, token_.value, *part_, pass.contribution_to(y));
  pass.sum(y);
}

void Embedding::forward(const Pass& pass, const EmbeddingSaved& saved, const Workspace& work, View y) const {
  const Batch& batch = pass.batch;
  const View sum = norm_ ? saved.sum : y;
  if (project_ || part_) {
    look_up(pass, project_ ? saved.tokens : sum);
    if (project_) project_->forward(pass, saved.tokens, sum);
    if (!position_.value.empty()) pass.ops.embedding_add(pass.context, pass.own(batch.positions), position_.value, sum);
  } else {
    const ConstView positions = position_.value.empty() ? ConstView() : batch.positions;
    pass.ops.embedding(pass.context, batch.tokens, positions, token_.value, position_.value, sum);
  }
  if (!type_.value.empty()) pass.ops.embedding_add(pass.context, pass.own(batch.types), type_.value, sum);
  if (spec_.embedding_scale != 1) pass.ops.dropout_add(pass.context, sum, {}, {}, sum, scale_in(sum.dtype()));
  if (norm_) norm_->forward(pass, sum, y, work.mean, work.rstd);
  const Dropout dropout = pass.own_dropout_at(spec_.embedding_dropout, 0, kEmbeddingSite);
  if (dropout.rate > 0) pass.ops.dropout_add(pass.context, y, {}, dropout, y);
}

void Embedding::backward(const Pass& pass, const EmbeddingSaved& saved, const Workspace& work) const {
  const Batch& batch = pass.batch;
  const Dropout dropout = pass.own_dropout_at(spec_.embedding_dropout, 0, kEmbeddingSite);
  View dy = work.gradient;
  if (dropout.rate > 0) pass.ops.dropout_backward(pass.context, dy, dropout, dy);
  if (norm_) {
    norm_->forward(pass, saved.sum, work.norm, work.mean, work.rstd);
    pass.ops.zero(pass.context, work.branch);
    norm_->backward(pass, dy, saved.sum, work.mean, work.rstd, work.branch);
    dy = work.branch;
  }
  if (spec_.embedding_scale != 1) pass.ops.dropout_backward(pass.context, dy, {}, dy, scale_in(dy.dtype()));
  if (position_.trained()) {
    pass.ops.embedding_backward(pass.context, pass.own(batch.positions), dy, position_.gradient, pass.write);
    if (!unused_positions_.empty() && pass.write == Write::overwrite) pass.ops.zero(pass.context, unused_positions_);
  }
  if (type_.trained()) pass.ops.embedding_backward(pass.context, pass.own(batch.types), dy, type_.gradient, pass.write);
  if (project_) {
    project_->backward(pass, dy, saved.tokens, work.narrow_gradient);
    dy = work.narrow_gradient;
  }
  if (!token_.trained()) return;
  Write write = pass.write;
  // The operator gives untouched rows' memory back. Where the stage with the head adds to every row, the system would
  // make each page again in every step.
  if (filled_later_ && write == Write::overwrite) {
    pass.ops.zero(pass.context, token_.gradient);
    write = Write::add;
  }
  pass.ops.embedding_backward(pass.context, batch.tokens, pass.all_rows(dy), token_.gradient, write,
                              part_.value_or(TableRows{}));
}

}  // namespace trireme
