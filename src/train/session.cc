#include "train/session.h"

#include "comm/stream_group.h"

namespace trireme {
namespace {

/// A group of first and last stage; nullptr on the others, and where no trained matrix is tied across stages.
/// Collective.
std::unique_ptr<Communicator> make_tied_pair(Communicator& pipeline, const ParameterTable& table) {
  if (pipeline.size() == 1 || !table.spec().tied_head || !table.trained().includes("embedding.token.weight"))
    return nullptr;
  const bool holds = pipeline.rank() == 0 || pipeline.rank() + 1 == pipeline.size();
  auto group = pipeline.split(holds ? 0 : 1, pipeline.rank());
  split_devices(pipeline, holds ? group.get() : nullptr);
  if (!holds) return nullptr;
  group->report_to(pipeline.heartbeat());
  return group;
}

/// The data ranks of this host, where they share the state.
std::unique_ptr<Communicator> make_host_group(Communicator& data, const TrainingState& state,
                                              const std::optional<OptimizerOptions>& options, Heartbeat* heartbeat) {
  if (!state.is_sharded() || options.value().shard_group == ShardGroup::all) return nullptr;
  auto group = data.split(options->hosts.host_of(data.rank()), data.rank());
  split_devices(data, group.get());
  group->report_to(heartbeat);
  return group;
}

}  // namespace

Session::Session(const MeshShape& mesh, const ParameterTable& table, TrainingState& state, Ops& ops,
                 const RankContext& rank)
    : table_(table),
      state_(state),
      ops_(ops),
      rank_(rank),
      mesh_(rank.world, mesh),
      devices_(mesh_, ops.device()),
      scalars_(mesh_.world()) {}

std::unique_ptr<Session> Session::make(const SessionOptions& options, const ParameterTable& table, TrainingState& state,
                                       Ops& ops, const RankContext& rank) {
  std::unique_ptr<Session> made(new Session(options.mesh, table, state, ops, rank));
  Mesh& mesh = made->mesh_;
  Communicator& tensor = mesh.tensor();
  made->host_group_ = make_host_group(mesh.data(), state, options.optimizer, rank.heartbeat);
  made->links_.emplace(mesh.pipeline(), ops, mesh.shape().chunks, options.dtype, options.shape.own_rows(tensor.size()),
                       options.spec.width, options.exchange_cores);
  // If the state is sharded, the optimizer's options say which rank owns what.
  if (state.shards_weights())
    made->shared_weights_ = std::make_unique<SharedWeights>(
        state, *made->state_ranks(), state_ownership(table, options.optimizer.value(), mesh.data().size()), ops,
        options.exchange_cores);
  if (tensor.size() > 1)
    made->tensor_.emplace(tensor, ops, tensor_sizes(options.spec, options.dtype, options.shape, ops),
                          options.exchange_cores);
  made->stage_.emplace(options.spec, ParameterViews{&table, state.weights(), state.gradients()}, options.dtype,
                       options.shape, ops, rank.threads, made->tensor_ ? &*made->tensor_ : nullptr, &made->weights());
  if (!options.optimizer || !options.shape.training) return made;
  made->tied_pair_ = make_tied_pair(mesh.pipeline(), table);
  made->optimizer_.emplace(table, state, ops, mesh.data(), *options.optimizer, made->tied_pair_.get(),
                           state.shards_weights() ? nullptr : made->state_ranks());
  if (options.shape.sequence_parallel)
    made->sequence_sums_.emplace(table, state.gradients(), *made->tensor_, made->stage_->context(), &*made->optimizer_);
  return made;
}

void Session::wait_for_ranks() {
  Device& device = ops_.device();
  if (device.network()) wait_watching(device.stream().record(), device, rank_.heartbeat);
}

Communicator* Session::state_ranks() {
  if (!state_.is_sharded()) return nullptr;
  return host_group_ ? host_group_.get() : &mesh_.data();
}

}  // namespace trireme
