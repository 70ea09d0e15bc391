#include "model/classifier_head.h"

namespace trireme {
namespace {

enum Site : uint32_t { kInputSite = 4, kOutputSite = 5 };

/// Sequences with a label; what follows them in the batch is padding.
int64_t labelled(const Batch& batch) { return batch.targets.empty() ? batch.values.rows() : batch.targets.rows(); }

}  // namespace

ClassifierHead::ClassifierHead(const Spec& spec, const ParameterViews& views, const HeadSaved& saved)
    : spec_(spec), saved_(saved), hidden_(views, "head.hidden", true), out_(views, "head.out", true) {}

Dropout ClassifierHead::input_dropout(const Pass& pass) const {
  const float rate = spec_.head_input_dropout ? spec_.head_dropout : 0;
  return pass.first_dropout_at(rate, static_cast<uint32_t>(spec_.layers), kInputSite);
}

Dropout ClassifierHead::output_dropout(const Pass& pass) const {
  return pass.first_dropout_at(spec_.head_dropout, static_cast<uint32_t>(spec_.layers), kOutputSite);
}

void ClassifierHead::forward(const Pass& pass, ConstView x, const Workspace& work, View logits) const {
  const int64_t n = logits.rows();
  const View first = saved_.first.rows_slice(0, n), hidden = saved_.hidden.rows_slice(0, n),
             dropped = work.norm.rows_slice(0, n);
  pass.ops.embedding(pass.context, pass.batch.offsets.rows_slice(0, n), {}, x, {}, first);
  pass.ops.dropout_add(pass.context, first, {}, input_dropout(pass), first);
  hidden_.forward(pass, first, spec_.head_activation, saved_.pre.rows_slice(0, n), hidden);
  pass.ops.dropout_add(pass.context, hidden, {}, output_dropout(pass), dropped);
  out_.forward(pass, dropped, logits);
}

double ClassifierHead::loss_of(const Pass& pass, const Workspace& work, ConstView logits) const {
  if (spec_.classes == 1) return pass.ops.squared_error(pass.context, logits, pass.batch.values);
  const int64_t n = logits.rows();
  const View max = work.head_max.rows_slice(0, n), sum = work.head_sum.rows_slice(0, n),
             target = work.head_target.rows_slice(0, n);
  pass.ops.softmax_stats(pass.context, logits, pass.batch.targets, 0, spec_.classes, max, sum, target);
  return pass.ops.cross_entropy(pass.context, max, sum, target, pass.batch.targets);
}

double ClassifierHead::loss(const Pass& pass, ConstView x, const Workspace& work) const {
  const View logits = work.logits.rows_slice(0, labelled(pass.batch));
  forward(pass, x, work, logits);
  return loss_of(pass, work, logits);
}

double ClassifierHead::loss_and_backward(const Pass& pass, ConstView x, const Workspace& work, float scale) const {
  const int64_t n = labelled(pass.batch);
  const View logits = work.logits.rows_slice(0, n), gradient = saved_.first_gradient.rows_slice(0, n),
             branch = work.branch.rows_slice(0, n);
  forward(pass, x, work, logits);
  const double loss = loss_of(pass, work, logits);
  if (spec_.classes == 1) {
    pass.ops.squared_error_backward(pass.context, logits, pass.batch.values, scale);
  } else {
    pass.ops.cross_entropy_backward(pass.context, logits, pass.batch.targets, 0, spec_.classes,
                                    work.head_max.rows_slice(0, n), work.head_sum.rows_slice(0, n), scale);
  }
  out_.backward(pass, logits, work.norm.rows_slice(0, n), branch);
  pass.ops.dropout_backward(pass.context, branch, output_dropout(pass), branch);
  pass.ops.activation_backward(pass.context, branch, saved_.pre.rows_slice(0, n), spec_.head_activation, branch);
  hidden_.backward(pass, branch, saved_.first.rows_slice(0, n), gradient);
  pass.ops.dropout_backward(pass.context, gradient, input_dropout(pass), gradient);
  pass.ops.scatter_rows(pass.context, gradient, pass.batch.offsets.rows_slice(0, n),
                        work.gradient.rows_slice(0, x.rows()));
  return loss;
}

void ClassifierHead::logits(const Pass& pass, ConstView x, const Workspace& work, View logits) const {
  forward(pass, x, work, logits);
}

}  // namespace trireme
