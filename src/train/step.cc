#include "train/step.h"

#include <algorithm>
#include <cmath>

#include "train/stop.h"

namespace trireme {

TrainStep::TrainStep(Stage& stage, Optimizer& optimizer, Ops& ops, TrainingState& state, const ParameterTable& table,
                     Scalars& scalars, StepBatches& batches, uint64_t seed, bool dropout)
    : stage_(stage),
      optimizer_(optimizer),
      ops_(ops),
      state_(state),
      table_(table),
      scalars_(scalars),
      batches_(batches),
      seed_(seed),
      dropout_(dropout) {}

double TrainStep::run_micro_batch(int64_t index, int64_t step, uint64_t consumed, float scale) {
  const Batch& batch = batches_.fill(consumed, index);
  const Write write = index == 0 ? Write::overwrite : Write::add;
  const bool last = index + 1 == batches_.micro_batches();
  if (last) optimizer_.begin_exchange();
  if (batch.rows() > 0) {
    const Stage::Step numbers{.seed = seed_, .step = static_cast<uint64_t>(step), .dropout = dropout_};
    return stage_.loss_and_backward(batch, numbers, scale, write, last ? &optimizer_ : nullptr);
  }
  // The global batch does not divide evenly and this rank has no sample left: it contributes zeros.
  if (write == Write::overwrite) ops_.zero(stage_.context(), state_.gradients());
  if (last) {
    for (const ParameterRange& range : table_.ready_ranges()) optimizer_.ready(range);
  }
  return 0;
}

StepResult TrainStep::run(int64_t step, uint64_t consumed, int64_t update, double learning_rate, double most_loss) {
  const double counted = scalars_.sum(batches_.counted(consumed));  // before backward: ranks may hold different counts

  double loss = 0;
  for (int64_t m = 0; m < batches_.micro_batches(); ++m)
    loss += run_micro_batch(m, step, consumed, static_cast<float>(1.0 / counted));
  const double squared_norm = optimizer_.finish_exchange(stage_.context());
  loss = scalars_.sum(loss) / counted;

  const bool finite = std::isfinite(loss) && std::isfinite(squared_norm);
  const StepResult result{
      .loss = loss, .norm = std::sqrt(squared_norm), .finite = finite, .skipped = !finite || loss > most_loss};
  if (!result.skipped) optimizer_.update(stage_.context(), learning_rate, update, result.norm);
  return result;
}

std::optional<double> evaluate(Stage& stage, Scalars& scalars, const SampleSource& data, const BatchShape& shape,
                               int64_t batches) {
  Batcher batcher(shape.largest_micro(), shape.sequence);
  double loss = 0, tokens = 0;
  for (int64_t b = 0; b < batches; ++b) {
    const auto first = static_cast<uint64_t>(b * shape.global);
    for (int64_t m = 0; m < shape.micro_batches; ++m) {
      const BatchSlice slice = batch_slice(first, shape.global, shape.ranks, shape.rank, shape.micro_batches, m);
      if (slice.count == 0) continue;
      const Batch& batch = batcher.fill(data, Stream::evaluation, slice);
      loss += stage.loss(batch);
      tokens += counted_rows(batch);
    }
    if (scalars.max(stop::requested() ? 1.0 : 0.0) > 0) return std::nullopt;
  }
  return scalars.sum(loss) / scalars.sum(tokens);
}

}  // namespace trireme
