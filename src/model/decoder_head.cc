#include "model/decoder_head.h"

#include <algorithm>

namespace trireme {

DecoderHead::DecoderHead(const Spec& spec, const ParameterViews& views, const HeadSaved& saved)
    : spec_(spec), saved_(saved), weight_(views, spec.tied_head ? "embedding.token.weight" : "head.weight") {
  if (spec.final_norm) norm_.emplace(views, "norm", spec.biases.norm, spec.norm_epsilon);
  if (spec.projected()) project_.emplace(views, "head.project", false);
  if (spec.head != HeadKind::masked_language_model) return;
  transform_.emplace(views, "head.transform", true);
  norm_.emplace(views, "head.norm", spec.biases.norm, spec.norm_epsilon);
  bias_ = LayerParameter(views, "head.bias");
}

ConstView DecoderHead::input_of(const Pass& pass, ConstView x, const Workspace& work) const {
  const int64_t rows = x.rows();
  ConstView input = x;
  if (transform_) {
    transform_->forward(pass, x, spec_.head_activation, saved_.pre.rows_slice(0, rows),
                        saved_.hidden.rows_slice(0, rows));
    input = saved_.hidden.rows_slice(0, rows);
  }
  if (norm_) {
    const View norm = work.norm.rows_slice(0, rows);
    norm_->forward(pass, input, norm, work.mean.rows_slice(0, rows), work.rstd.rows_slice(0, rows));
    input = norm;
  }
  if (project_) {
    const View narrow = saved_.narrow.rows_slice(0, rows);
    project_->forward(pass, input, narrow);
    input = narrow;
  }
  return input;
}

void DecoderHead::backward_input(const Pass& pass, ConstView x, const Workspace& work, View dinput) const {
  const int64_t rows = x.rows();
  const View gradient = work.gradient.rows_slice(0, rows), branch = work.branch.rows_slice(0, rows);
  if (project_) {
    project_->backward(pass, dinput, norm_ ? work.norm.rows_slice(0, rows) : x, norm_ ? branch : gradient);
  }
  if (!norm_) return;
  pass.ops.zero(pass.context, gradient);
  norm_->backward(pass, branch, transform_ ? saved_.hidden.rows_slice(0, rows) : x, work.mean.rows_slice(0, rows),
                  work.rstd.rows_slice(0, rows), gradient);
  if (!transform_) return;
  pass.ops.activation_backward(pass.context, gradient, saved_.pre.rows_slice(0, rows), spec_.head_activation, branch);
  transform_->backward(pass, branch, x, gradient);
}

double DecoderHead::chunk_loss(const Pass& pass, ConstView input, ConstView targets, const Workspace& work,
                               View logits) const {
  const int64_t n = input.rows();
  const View max = work.head_max.rows_slice(0, n), sum = work.head_sum.rows_slice(0, n),
             target = work.head_target.rows_slice(0, n);
  pass.ops.linear(pass.context, input, weight_.value, bias_.value, logits);
  pass.ops.softmax_stats(pass.context, logits, targets, 0, spec_.vocabulary, max, sum, target);
  return pass.ops.cross_entropy(pass.context, max, sum, target, targets);
}

void DecoderHead::chunk_backward(const Pass& pass, ConstView input, ConstView targets, const Workspace& work,
                                 View logits, View dinput, float scale, bool first_chunk) const {
  const int64_t n = input.rows();
  pass.ops.cross_entropy_backward(pass.context, logits, targets, 0, spec_.vocabulary, work.head_max.rows_slice(0, n),
                                  work.head_sum.rows_slice(0, n), scale);
  // A later micro-batch's sum is completed apart and added once, so that it does not depend on what the accumulator
  // held.
  const bool apart = pass.write == Write::add;
  const Write write = first_chunk ? Write::overwrite : Write::accumulate;
  pass.ops.linear_backward_weight(pass.context, logits, input, apart ? work.head_gradient : weight_.gradient, write);
  if (!bias_.value.empty())
    pass.ops.bias_backward(pass.context, logits, apart ? work.head_bias_gradient : bias_.gradient,
                           first_chunk ? Write::overwrite : Write::add);
  pass.ops.linear_backward_input(pass.context, logits, weight_.value, dinput);
}

double DecoderHead::loss(const Pass& pass, ConstView x, const Workspace& work) const {
  const int64_t rows = pass.batch.rows(), chunk = work.logits.rows();
  const ConstView input = input_of(pass, x, work);
  double total = 0;
  for (int64_t first = 0; first < rows; first += chunk) {
    const int64_t n = std::min(chunk, rows - first);
    total += chunk_loss(pass, input.rows_slice(first, n), pass.batch.targets.rows_slice(first, n), work,
                        work.logits.rows_slice(0, n));
  }
  return total;
}

double DecoderHead::loss_and_backward(const Pass& pass, ConstView x, const Workspace& work, float scale) const {
  const int64_t rows = pass.batch.rows(), chunk = work.logits.rows();
  const ConstView input = input_of(pass, x, work);
  const View dinput = (project_ ? saved_.narrow_gradient : norm_ ? work.branch : work.gradient).rows_slice(0, rows);
  double total = 0;
  for (int64_t first = 0; first < rows; first += chunk) {
    const int64_t n = std::min(chunk, rows - first);
    const ConstView some = input.rows_slice(first, n), targets = pass.batch.targets.rows_slice(first, n);
    const View logits = work.logits.rows_slice(0, n);
    total += chunk_loss(pass, some, targets, work, logits);
    chunk_backward(pass, some, targets, work, logits, dinput.rows_slice(first, n), scale, first == 0);
  }
  if (pass.write == Write::add) {
    pass.ops.add(pass.context, work.head_gradient, weight_.gradient);
    if (!bias_.value.empty()) pass.ops.add(pass.context, work.head_bias_gradient, bias_.gradient);
  }
  backward_input(pass, x, work, dinput);
  return total;
}

void DecoderHead::logits(const Pass& pass, ConstView x, const Workspace& work, View logits) const {
  pass.ops.linear(pass.context, input_of(pass, x, work), weight_.value, bias_.value, logits);
}

}  // namespace trireme
