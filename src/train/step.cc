#include "train/step.h"

#include <array>
#include <cmath>

#include "train/sign_of_life.h"

namespace trireme {

double TrainStep::run_micro_batch(int64_t index, const StepStart& start, float scale) {
  Stage& stage = session_.stage();
  Optimizer& optimizer = session_.optimizer();
  const Batch& batch = batches_.fill(start.consumed, index);
  const Write write = index == 0 ? Write::overwrite : Write::add;
  const bool last = index + 1 == batches_.micro_batches();
  if (last) optimizer.begin_exchange();
  if (batch.rows() > 0) {
    const Stage::Step numbers{
        .seed = seed_, .step = static_cast<uint64_t>(start.step), .dropout = stage.spec().has_dropout()};
    return stage.loss_and_backward(batch, numbers, scale, write, last ? &optimizer : nullptr);
  }
  // The global batch does not divide evenly and this rank has no sample left: it contributes zeros.
  if (write == Write::overwrite) session_.ops().zero(stage.context(), session_.state().gradients());
  if (last) {
    for (const ParameterRange& range : session_.table().ready_ranges()) optimizer.ready(range);
  }
  return 0;
}

/// One message: what ranks have to tell each other after a step.
StepResult TrainStep::agree(double loss, double squared_norm, double counted, const StepStart& start) {
  const bool stop = session_.rank().stop_requested();
  std::array<double, 3> verdict{loss, stop ? 1.0 : 0.0, start.saved ? 0.0 : 1.0};
  session_.scalars().sum(verdict);
  StepResult result{
      .loss = verdict[0] / counted, .norm = std::sqrt(squared_norm), .stop = verdict[1] > 0, .saved = verdict[2] == 0};
  result.finite = std::isfinite(result.loss) && std::isfinite(squared_norm);
  result.skipped = !result.finite || result.loss > start.most_loss;
  return result;
}

/// What the losses of all ranks' micro-batches are a sum over.
double TrainStep::count(uint64_t consumed) {
  const double own = batches_.counted(consumed);
  const auto all = batches_.counted_by_all(consumed);
  return all ? *all : session_.scalars().sum(own);
}

StepResult TrainStep::run(const StepStart& start) {
  const double counted = count(start.consumed);
  double loss = 0;
  SignOfLife sign("this step");
  for (int64_t m = 0; m < batches_.micro_batches(); ++m) {
    loss += run_micro_batch(m, start, static_cast<float>(1.0 / counted));
    sign.tell(m + 1, batches_.micro_batches());
  }
  Context& context = session_.stage().context();
  const double squared_norm = session_.optimizer().finish_exchange(context);
  const StepResult result = agree(loss, squared_norm, counted, start);
  if (!result.skipped) session_.optimizer().update(context, start.learning_rate, start.update, result.norm);
  return result;
}

std::optional<double> evaluate(Session& session, const SampleSource& data, const BatchShape& shape, int64_t batches) {
  Batcher batcher(shape.largest_micro(), shape.sequence);
  Scalars& scalars = session.scalars();
  double loss = 0, tokens = 0;
  SignOfLife sign("evaluation");
  for (int64_t b = 0; b < batches; ++b) {
    const auto first = static_cast<uint64_t>(b * shape.global);
    for (int64_t m = 0; m < shape.micro_batches; ++m) {
      const BatchSlice slice = batch_slice(first, shape.global, shape.ranks, shape.rank, shape.micro_batches, m);
      if (slice.count == 0) continue;
      const Batch& batch = batcher.fill(data, Stream::evaluation, slice);
      loss += session.stage().loss(batch);
      tokens += counted_rows(batch);
      sign.tell(b * shape.micro_batches + m + 1, batches * shape.micro_batches);
    }
    if (scalars.any(session.rank().stop_requested())) return std::nullopt;
  }
  return scalars.sum(loss) / scalars.sum(tokens);
}

}  // namespace trireme
