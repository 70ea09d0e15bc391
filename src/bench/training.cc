#include "bench/training.h"

#include <limits>

#include "base/time.h"

namespace trireme {
namespace {

SessionOptions session_options(const MeasuredModel& model, const RankContext& rank, const ModelShape& shape) {
  SessionOptions options{.spec = model.spec,
                         .dtype = model.dtype,
                         .shape = shape,
                         .mesh = {.data = rank.size()},
                         .optimizer = model.optimizer};
  options.shape.accumulates = false;
  options.optimizer->one_host = rank.one_host();
  return options;
}

}  // namespace

MeasuredModel::MeasuredModel(const Spec& model, DType type, Ops& operators, std::vector<int> progress_cpus)
    : spec(model), dtype(type), ops(operators), table(model), state(table, type, true) {
  optimizer.progress_cpus = std::move(progress_cpus);
  initialize(state, table, 1);
}

MeasuredTraining::MeasuredTraining(MeasuredModel& model, const RankContext& rank, const ModelShape& shape,
                                   int64_t samples, double learning_rate, std::unique_ptr<StepBatches> batches)
    : session_(session_options(model, rank, shape), model.table, model.state, model.ops, rank),
      batches_(std::move(batches)),
      step_(session_, *batches_, 1),
      samples_(samples),
      learning_rate_(learning_rate) {}

StepTime MeasuredTraining::run() {
  const auto start = Clock::now();
  const StepResult result = step_.run({.step = steps_,
                                       .consumed = static_cast<uint64_t>(consumed_),
                                       .update = steps_ + 1,
                                       .learning_rate = learning_rate_,
                                       .most_loss = std::numeric_limits<double>::infinity()});
  ++steps_;
  consumed_ += samples_;
  return {seconds_since(start), session_.optimizer().last_exchange().exposed_seconds, result.loss};
}

}  // namespace trireme
