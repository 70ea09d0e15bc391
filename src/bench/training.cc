#include "bench/training.h"

#include <limits>

#include "base/time.h"
#include "comm/heartbeat.h"
#include "model/mesh_layout.h"

namespace trireme {
namespace {

OptimizerOptions optimizer_options(std::vector<int> exchange_cores, ShardChoice shard) {
  OptimizerOptions options;
  options.exchange_cores = std::move(exchange_cores);
  options.shard = shard;
  return options;
}

SessionOptions session_options(const MeasuredModel& model, const RankContext& rank, const MeshShape& mesh,
                               const ModelShape& shape) {
  SessionOptions options{.spec = model.spec,
                         .dtype = model.dtype,
                         .shape = shape,
                         .mesh = mesh,
                         .optimizer = model.optimizer,
                         .exchange_cores = model.optimizer.exchange_cores};
  options.optimizer->one_host = rank.one_host();
  return options;
}

}  // namespace

MeasuredModel::MeasuredModel(const Spec& model, DType type, Ops& operators, const OptimizerOptions& options,
                             const Layout& held, int data_ranks, int data_rank)
    : spec(model),
      dtype(type),
      ops(operators),
      optimizer(options),
      table(model, InitScheme::gpt2, held),
      state(table, type, true, kept_states(table, optimizer, data_ranks, data_rank), operators.device()) {
  initialize(state, table, 1);
}

MeasuredModel::MeasuredModel(const Spec& model, DType type, Ops& operators, std::vector<int> exchange_cores)
    : MeasuredModel(model, type, operators, optimizer_options(std::move(exchange_cores), ShardChoice::none), {}, 1, 0) {
}

MeasuredModel::MeasuredModel(const Spec& model, DType type, Ops& operators, std::vector<int> exchange_cores,
                             const MeshShape& mesh, int rank, ShardChoice shard)
    : MeasuredModel(model, type, operators, optimizer_options(std::move(exchange_cores), shard),
                    layout_of(model, mesh, rank), static_cast<int>(mesh.data), place_of(mesh, rank).data) {}

MeasuredTraining::MeasuredTraining(MeasuredModel& model, const RankContext& rank, const MeshShape& mesh,
                                   const ModelShape& shape, int64_t samples, double learning_rate,
                                   std::unique_ptr<StepBatches> batches)
    : rank_(rank),
      session_(session_options(model, rank, mesh, shape), model.table, model.state, model.ops, rank),
      batches_(std::move(batches)),
      step_(session_, *batches_, 1),
      samples_(samples),
      learning_rate_(learning_rate) {}

StepTime MeasuredTraining::run() {
  const auto start = Clock::now();
  const double waited = rank_.heartbeat->waited_seconds();
  const StepResult result = step_.run({.step = steps_,
                                       .consumed = static_cast<uint64_t>(consumed_),
                                       .update = steps_ + 1,
                                       .learning_rate = learning_rate_,
                                       .most_loss = std::numeric_limits<double>::infinity()});
  ++steps_;
  consumed_ += samples_;
  return {seconds_since(start), rank_.heartbeat->waited_seconds() - waited, result.loss};
}

}  // namespace trireme
