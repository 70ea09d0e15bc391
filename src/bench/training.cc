#include "bench/training.h"

#include <limits>

#include "base/time.h"
#include "comm/heartbeat.h"

namespace trireme {

Config measured_config(DType dtype) {
  Config config;
  config.precision.dtype = dtype;
  config.optim.weight_decay = 0;
  return config;
}

MeasuredModel::MeasuredModel(const RankPlan& plan, Ops& operators)
    : ops(operators), table(plan.table.value()), state(table, plan.dtype, true, plan.kept, operators.device()) {
  initialize(state, table, 1);
}

MeasuredTraining::MeasuredTraining(MeasuredModel& model, const RankContext& rank, const RankPlan& plan, int64_t samples,
                                   double learning_rate, std::unique_ptr<StepBatches> batches)
    : rank_(rank),
      session_(Session::make(session_options(plan), model.table, model.state, model.ops, rank)),
      batches_(std::move(batches)),
      step_(*session_, *batches_, 1),
      samples_(samples),
      learning_rate_(learning_rate) {}

StepTime MeasuredTraining::run() {
  Device& device = session_->ops().device();
  const auto start = Clock::now();
  const Event begin = device.stream().record_time();
  const double waited = rank_.heartbeat->waited_seconds();
  const StepResult result = step_.run({.step = steps_,
                                       .consumed = static_cast<uint64_t>(consumed_),
                                       .update = steps_ + 1,
                                       .learning_rate = learning_rate_,
                                       .most_loss = std::numeric_limits<double>::infinity(),
                                       .next = true});
  ++steps_;
  consumed_ += samples_;
  double seconds = seconds_since(start);
  if (!device.is_host()) {  // the update may still run
    const Event end = device.stream().record_time();
    end.wait();
    seconds = end.seconds_since(begin);
  }
  return {seconds, rank_.heartbeat->waited_seconds() - waited, result.loss};
}

}  // namespace trireme
