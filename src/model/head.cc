#include "model/head.h"

#include <algorithm>
#include <cassert>

namespace trireme {

std::unique_ptr<Head> make_head(const Spec& spec, const ParameterViews& views) {
  if (spec.has_decoder()) return std::make_unique<DecoderHead>(spec, views);
  return std::make_unique<ClassifierHead>(spec, views);
}

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

namespace {

/// each(sequence, first row of it in the chunk, count) for the sequences with rows in the chunk [first, first + rows).
template <class Each>
void for_each_sequence(std::span<const int32_t> offsets, int64_t first, int64_t rows, const Each& each) {
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    const int64_t begin = std::max<int64_t>(offsets[s], first), end = std::min<int64_t>(offsets[s + 1], first + rows);
    if (begin < end) each(s, begin - first, end - begin);
  }
}

}  // namespace

DecoderHead::DecoderHead(const Spec& spec, const ParameterViews& views)
    : spec_(spec), weight_(views, spec.tied_head ? "embedding.token.weight" : "head.weight") {
  const Parameter& matrix = views.table->find(spec.tied_head ? "embedding.token.weight" : "head.weight");
  cut_ = !matrix.is_whole();
  first_class_ = matrix.box.begin[0];
  classes_ = std::clamp<int64_t>(spec.vocabulary - first_class_, 0, matrix.shape[0]);
  if (spec.final_norm) norm_.emplace(views, "norm", spec);
  if (spec.projected()) project_.emplace(views, "head.project", false);
  if (spec.head != HeadKind::masked_language_model) return;
  transform_.emplace(views, "head.transform", true);
  norm_.emplace(views, "head.norm", spec);
  bias_ = LayerParameter(views, "head.bias");
}

ConstView DecoderHead::input_of(const Pass& pass, ConstView x, const Workspace& work) const {
  ConstView input = x;
  if (transform_) {
    transform_->forward(pass, x, spec_.head_activation, work.head.pre, work.head.hidden);
    input = work.head.hidden;
  }
  if (norm_) {
    norm_->forward(pass, input, work.norm, work.mean, work.rstd);
    input = work.norm;
  }
  if (project_) {
    project_->forward(pass, input, work.head.narrow);
    input = work.head.narrow;
  }
  if (spec_.logits_scale == 1) return input;
  const View scaled = project_ ? work.head.narrow : work.norm;  // x itself belongs to backward
  pass.ops.dropout_add(pass.context, input, {}, {}, scaled, spec_.logits_scale);
  return scaled;
}

void DecoderHead::backward_input(const Pass& pass, ConstView x, const Workspace& work, View dinput) const {
  if (spec_.logits_scale != 1) pass.ops.dropout_backward(pass.context, dinput, {}, dinput, spec_.logits_scale);
  if (project_) project_->backward(pass, dinput, norm_ ? work.norm : x, norm_ ? work.branch : work.gradient);
  if (!norm_) return;
  pass.ops.zero(pass.context, work.gradient);
  norm_->backward(pass, work.branch, transform_ ? work.head.hidden : x, work.mean, work.rstd, work.gradient);
  if (!transform_) return;
  transform_->backward(pass, work.gradient, work.head.pre, spec_.head_activation, work.branch, x, work.gradient);
}

void DecoderHead::capped_logits(const Pass& pass, ConstView input, View logits) const {
  pass.ops.linear(pass.context, input, weight_.value, bias_.value, logits);
  if (spec_.logits_cap > 0) pass.ops.soft_cap(pass.context, logits, spec_.logits_cap);
}

void DecoderHead::chunk_logits(const Pass& pass, ConstView input, ConstView targets, const HeadChunk& chunk) const {
  const auto& [logits, max, sum, target] = chunk;
  if (spec_.logits_cap > 0) {
    capped_logits(pass, input, logits);
    pass.ops.softmax_stats(pass.context, logits, targets, first_class_, classes_, max, sum, target);
  } else {
    pass.ops.linear_softmax_stats(pass.context, input, weight_.value, bias_.value, targets, first_class_, classes_,
                                  logits, max, sum, target);
  }
  if (cut_) pass.tensor->combine(pass.context, max, sum, target);
}

void DecoderHead::chunk_backward(const Pass& pass, ConstView input, const Workspace& work, const HeadChunk& chunk,
                                 View dinput, bool first_chunk) const {
  const View logits = chunk.logits;
  // A later micro-batch's sum is completed apart and added once, so that it does not depend on the previous
  // accumulator.
  const bool apart = pass.write == Write::add;
  const Write write = first_chunk ? Write::overwrite : Write::accumulate;
  if (weight_.trained())
    pass.ops.linear_backward_weight(pass.context, logits, input, apart ? work.head_gradient : weight_.gradient, write);
  if (bias_.trained())
    pass.ops.bias_backward(pass.context, logits, apart ? work.head_bias_gradient : bias_.gradient,
                           first_chunk ? Write::overwrite : Write::add);
  pass.ops.linear_backward_input(pass.context, logits, weight_.value, dinput);
}

bool DecoderHead::takes_counted(const Pass& pass) const {
  return !pass.batch.counted.empty() && norm_ && !transform_ && !project_ && !pass.sequence_parallel();
}

DecoderHead::HeadRows DecoderHead::rows_of(const Pass& pass, ConstView input, View to) const {
  const Batch& batch = pass.batch;
  if (!takes_counted(pass)) return {input, batch.targets};
  const View rows = to.rows_slice(0, batch.counted.rows());
  pass.ops.embedding(pass.context, batch.counted, {}, input, {}, rows);
  return {rows, batch.counted_targets, true};
}

std::vector<double> DecoderHead::sequence_loss(const Pass& pass, const HeadRows& rows, const Workspace& work,
                                               bool wanted) const {
  const SequenceLoss& loss = *pass.batch.sequence_loss;
  const View sums = work.sequence_losses.rows_slice(0, static_cast<int64_t>(loss.sequences()));
  pass.ops.zero(pass.context, sums);
  const int64_t most = work.chunk.logits.rows();
  for (int64_t first = 0; first < rows.input.rows(); first += most) {
    const int64_t n = std::min(most, rows.input.rows() - first);
    const ConstView targets = rows.targets.rows_slice(first, n);
    const HeadChunk chunk = work.chunk.first(n);
    chunk_logits(pass, rows.input.rows_slice(first, n), targets, chunk);
    for_each_sequence(rows.counted ? loss.counted_offsets : loss.offsets, first, n,
                      [&](size_t sequence, int64_t begin, int64_t count) {
                        pass.ops.cross_entropy(pass.context, chunk.max.rows_slice(begin, count),
                                               chunk.sum.rows_slice(begin, count),
                                               chunk.target.rows_slice(begin, count), targets.rows_slice(begin, count),
                                               sums.rows_slice(static_cast<int64_t>(sequence), 1));
                      });
  }
  std::vector<double> derivatives(wanted ? loss.sequences() : 0);
  const double value = loss.value(HostValues<double>(sums).get(), derivatives);
  const double before = HostValues<double>(pass.loss).get()[0];
  write_values<double>(pass.loss, [&](auto to) { to[0] = before + value; });
  return derivatives;
}

void DecoderHead::loss(const Pass& pass, ConstView x, const Workspace& work) const {
  const HeadRows all = rows_of(pass, pass.all_rows(input_of(pass, x, work)), work.branch);
  if (pass.batch.sequence_loss != nullptr) {
    (void)sequence_loss(pass, all, work, false);
    return;
  }
  const int64_t rows = all.input.rows(), most = work.chunk.logits.rows();
  for (int64_t first = 0; first < rows; first += most) {
    const int64_t n = std::min(most, rows - first);
    const ConstView targets = all.targets.rows_slice(first, n);
    const HeadChunk chunk = work.chunk.first(n);
    chunk_logits(pass, all.input.rows_slice(first, n), targets, chunk);
    pass.ops.cross_entropy(pass.context, chunk.max, chunk.sum, chunk.target, targets, pass.loss);
  }
}

void DecoderHead::loss_and_backward(const Pass& pass, ConstView x, const Workspace& work, float scale) const {
  // The residual's gradient and, once its rows are gathered, the norm are free until the rows' gradients are complete.
  const HeadRows all = rows_of(pass, pass.all_rows(input_of(pass, x, work)), work.gradient);
  const bool by_sequence = pass.batch.sequence_loss != nullptr;
  const std::vector<double> derivatives = by_sequence ? sequence_loss(pass, all, work, true) : std::vector<double>();
  const int64_t rows = all.input.rows(), most = work.chunk.logits.rows();
  const View dinput = project_ ? work.narrow_gradient
                      : norm_  ? work.branch
                               : work.gradient,
             sum = all.counted ? work.norm.rows_slice(0, rows) : dinput, part = pass.contribution_to(sum);
  for (int64_t first = 0; first < rows; first += most) {
    const int64_t n = std::min(most, rows - first);
    const ConstView input = all.input.rows_slice(first, n), targets = all.targets.rows_slice(first, n);
    const HeadChunk chunk = work.chunk.first(n);
    const auto differentiate = [&](int64_t begin, int64_t count, float factor) {
      pass.ops.cross_entropy_backward(
          pass.context, chunk.logits.rows_slice(begin, count), targets.rows_slice(begin, count), first_class_, classes_,
          chunk.max.rows_slice(begin, count), chunk.sum.rows_slice(begin, count), factor, 0, spec_.logits_cap);
    };
    if (!by_sequence || rows > most) chunk_logits(pass, input, targets, chunk);  // those of one chunk are still there
    if (by_sequence) {
      const SequenceLoss& loss = *pass.batch.sequence_loss;
      for_each_sequence(all.counted ? loss.counted_offsets : loss.offsets, first, n,
                        [&](size_t sequence, int64_t begin, int64_t count) {
                          differentiate(begin, count, static_cast<float>(scale * derivatives[sequence]));
                        });
    } else {
      pass.ops.cross_entropy(pass.context, chunk.max, chunk.sum, chunk.target, targets, pass.loss);
      differentiate(0, n, scale);
    }
    chunk_backward(pass, input, work, chunk, part.rows_slice(first, n), first == 0);
  }
  if (cut_) pass.start_sum(sum);
  if (pass.write == Write::add) {
    if (weight_.trained()) pass.ops.add(pass.context, work.head_gradient, weight_.gradient);
    if (bias_.trained()) pass.ops.add(pass.context, work.head_bias_gradient, bias_.gradient);
  }
  if (cut_) pass.tensor->finish();
  if (all.counted) pass.ops.scatter_rows(pass.context, sum, pass.batch.counted, dinput);
  backward_input(pass, x, work, dinput);
}

void DecoderHead::logits(const Pass& pass, ConstView x, const Workspace& work, View logits) const {
  assert(!pass.sequence_parallel());
  const ConstView input = input_of(pass, x, work);
  if (!cut_) return capped_logits(pass, input, logits);
  const int64_t rows = x.rows(), most = work.chunk.logits.rows(), ranks = pass.tensor->size();
  for (int64_t first = 0; first < rows; first += most) {
    const View own = work.chunk.first(std::min(most, rows - first)).logits;
    capped_logits(pass, input.rows_slice(first, own.rows()), own);
    for (int64_t row = 0; row < own.rows(); ++row) {  // where speed matters there is one
      const View all = logits.rows_slice(first + row, 1).reshape({ranks, own.shape()[1]});
      pass.tensor->gather(pass.context, own.rows_slice(row, 1), all);
    }
  }
}

}  // namespace trireme
