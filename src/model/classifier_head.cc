#include "model/classifier_head.h"

namespace trireme {
namespace {

enum Site : uint32_t { kInputSite = 4, kOutputSite = 5 };

/// Sequences with a label; what follows them in the batch is padding.
int64_t labelled(const Batch& batch) { return batch.targets.empty() ? batch.values.rows() : batch.targets.rows(); }

}  // namespace

ClassifierHead::ClassifierHead(const Spec& spec, const ParameterViews& views)
    : spec_(spec), hidden_(views, "head.hidden", true), out_(views, "head.out", true) {}

Dropout ClassifierHead::input_dropout(const Pass& pass) const {
  const float rate = spec_.head_input_dropout ? spec_.head_dropout : 0;
  return pass.first_dropout_at(rate, static_cast<uint32_t>(spec_.layers), kInputSite);
}

Dropout ClassifierHead::output_dropout(const Pass& pass) const {
  return pass.first_dropout_at(spec_.head_dropout, static_cast<uint32_t>(spec_.layers), kOutputSite);
}

void ClassifierHead::gather_first(const Pass& pass, ConstView x, View y) const {
  const ConstView rows = pass.batch.offsets.rows_slice(0, y.rows());
  if (!pass.sequence_parallel()) return pass.ops.embedding(pass.context, rows, {}, x, {}, y);
  pass.ops.embedding_part(pass.context, rows, x, {pass.share().first, pass.batch.rows()}, y);
  pass.tensor->sum(pass.context, y);  // one of them has the row, the others add 0
}

void ClassifierHead::scatter_first(const Pass& pass, ConstView dy, View dx) const {
  const View all = pass.contribution_to(dx);
  pass.ops.scatter_rows(pass.context, dy, pass.batch.offsets.rows_slice(0, dy.rows()), all);
  if (pass.sequence_parallel()) pass.ops.cast(pass.context, pass.own(all), dx);
}

void ClassifierHead::forward(const Pass& pass, ConstView x, const HeadBuffers& head, View logits) const {
  const auto& [pre, hidden, narrow, first, dropped] = head;
  gather_first(pass, x, first);
  pass.ops.dropout_add(pass.context, first, {}, input_dropout(pass), first);
  hidden_.forward(pass, first, spec_.head_activation, pre, hidden);
  pass.ops.dropout_add(pass.context, hidden, {}, output_dropout(pass), dropped);
  out_.forward(pass, dropped, logits);
}

void ClassifierHead::loss_of(const Pass& pass, const HeadChunk& chunk) const {
  const auto& [logits, max, sum, target] = chunk;
  if (spec_.classes == 1) return pass.ops.squared_error(pass.context, logits, pass.batch.values, pass.loss);
  pass.ops.softmax_stats(pass.context, logits, pass.batch.targets, 0, spec_.classes, max, sum, target);
  if (pass.batch.smoothing > 0)
    pass.ops.smooth_target(pass.context, logits, spec_.classes, pass.batch.smoothing, target);
  pass.ops.cross_entropy(pass.context, max, sum, target, pass.batch.targets, pass.loss);
}

void ClassifierHead::loss(const Pass& pass, ConstView x, const Workspace& work) const {
  const int64_t n = labelled(pass.batch);
  const HeadChunk chunk = work.chunk.first(n);
  forward(pass, x, work.head.of_rows(n), chunk.logits);
  loss_of(pass, chunk);
}

void ClassifierHead::loss_and_backward(const Pass& pass, ConstView x, const Workspace& work, float scale) const {
  const int64_t n = labelled(pass.batch);
  const HeadChunk chunk = work.chunk.first(n);
  const HeadBuffers head = work.head.of_rows(n);
  const View gradient = head.first_gradient, dhidden = head.hidden;  // its contents are not needed again
  forward(pass, x, head, chunk.logits);
  loss_of(pass, chunk);
  if (spec_.classes == 1) {
    pass.ops.squared_error_backward(pass.context, chunk.logits, pass.batch.values, scale);
  } else {
    pass.ops.cross_entropy_backward(pass.context, chunk.logits, pass.batch.targets, 0, spec_.classes, chunk.max,
                                    chunk.sum, scale, pass.batch.smoothing);
  }
  out_.backward(pass, chunk.logits, head.first_gradient, dhidden);
  pass.ops.dropout_backward(pass.context, dhidden, output_dropout(pass), dhidden);
  pass.ops.activation_backward(pass.context, dhidden, head.pre, spec_.head_activation, dhidden);
  hidden_.backward(pass, dhidden, head.first, gradient);
  pass.ops.dropout_backward(pass.context, gradient, input_dropout(pass), gradient);
  scatter_first(pass, gradient, work.gradient);
}

void ClassifierHead::logits(const Pass& pass, ConstView x, const Workspace& work, View logits) const {
  forward(pass, x, work.head.of_rows(logits.rows()), logits);
}

}  // namespace trireme
