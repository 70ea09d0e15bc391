#include "model/head.h"

#include <algorithm>

namespace trireme {

Head::Head(const Spec& spec, const ParameterViews& views)
    : spec_(spec),
      norm_(views, "norm", spec.biases.norm, spec.norm_epsilon),
      weight_(views, spec.tied_head ? "embedding.token.weight" : "head.weight") {}

double Head::chunk_loss(const Pass& pass, ConstView norm, ConstView targets, const Workspace& work, View logits) const {
  const int64_t n = norm.rows();
  const View max = work.head_max.rows_slice(0, n), sum = work.head_sum.rows_slice(0, n),
             target = work.head_target.rows_slice(0, n);
  pass.ops.linear(pass.context, norm, weight_.value, {}, logits);
  pass.ops.softmax_stats(pass.context, logits, targets, 0, spec_.vocabulary, max, sum, target);
  return pass.ops.cross_entropy(pass.context, max, sum, target, targets);
}

void Head::chunk_backward(const Pass& pass, ConstView norm, ConstView targets, const Workspace& work, View logits,
                          View dnorm, float scale, bool first_chunk) const {
  const int64_t n = norm.rows();
  pass.ops.cross_entropy_backward(pass.context, logits, targets, 0, spec_.vocabulary, work.head_max.rows_slice(0, n),
                                  work.head_sum.rows_slice(0, n), scale);
  // A later micro-batch's sum is completed apart and added once, so that it does not depend on what the accumulator
  // held.
  const View gradient = pass.write == Write::overwrite ? weight_.gradient : work.head_gradient;
  pass.ops.linear_backward_weight(pass.context, logits, norm, gradient,
                                  first_chunk ? Write::overwrite : Write::accumulate);
  pass.ops.linear_backward_input(pass.context, logits, weight_.value, dnorm);
}

double Head::loss(const Pass& pass, ConstView x, const Workspace& work) const {
  const int64_t rows = pass.batch.rows(), chunk = work.logits.rows();
  const View norm = work.norm.rows_slice(0, rows);
  norm_.forward(pass, x, norm, work.mean.rows_slice(0, rows), work.rstd.rows_slice(0, rows));
  double total = 0;
  for (int64_t first = 0; first < rows; first += chunk) {
    const int64_t n = std::min(chunk, rows - first);
    total += chunk_loss(pass, norm.rows_slice(first, n), pass.batch.targets.rows_slice(first, n), work,
                        work.logits.rows_slice(0, n));
  }
  return total;
}

double Head::loss_and_backward(const Pass& pass, ConstView x, const Workspace& work, float scale) const {
  const int64_t rows = pass.batch.rows(), chunk = work.logits.rows();
  const View norm = work.norm.rows_slice(0, rows), dnorm = work.branch.rows_slice(0, rows),
             gradient = work.gradient.rows_slice(0, rows);
  const View mean = work.mean.rows_slice(0, rows), rstd = work.rstd.rows_slice(0, rows);
  norm_.forward(pass, x, norm, mean, rstd);
  double total = 0;
  for (int64_t first = 0; first < rows; first += chunk) {
    const int64_t n = std::min(chunk, rows - first);
    const ConstView chunk_norm = norm.rows_slice(first, n), targets = pass.batch.targets.rows_slice(first, n);
    const View logits = work.logits.rows_slice(0, n);
    total += chunk_loss(pass, chunk_norm, targets, work, logits);
    chunk_backward(pass, chunk_norm, targets, work, logits, dnorm.rows_slice(first, n), scale, first == 0);
  }
  if (pass.write == Write::add) pass.ops.add(pass.context, work.head_gradient, weight_.gradient);
  pass.ops.zero(pass.context, gradient);
  norm_.backward(pass, dnorm, x, mean, rstd, gradient);
  return total;
}

void Head::logits(const Pass& pass, ConstView x, const Workspace& work, View logits) const {
  const int64_t n = x.rows();
  const View norm = work.norm.rows_slice(0, n);
  norm_.forward(pass, x, norm, work.mean.rows_slice(0, n), work.rstd.rows_slice(0, n));
  pass.ops.linear(pass.context, norm, weight_.value, {}, logits);
}

}  // namespace trireme
