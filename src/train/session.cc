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

Session::Session(const SessionOptions& options, const ParameterTable& table, TrainingState& state, Ops& ops,
                 const RankContext& rank)
    : table_(table),
      state_(state),
      ops_(ops),
      rank_(rank),
      mesh_(rank.world, options.mesh),
      devices_(mesh_, ops.device()),
      scalars_(mesh_.world()),
      host_group_(make_host_group(mesh_.data(), state, options.optimizer, rank.heartbeat)),
      links_(mesh_.pipeline(), ops, mesh_.shape().chunks, options.dtype, options.shape.own_rows(mesh_.tensor().size()),
             options.spec.width, options.exchange_cores),
      shared_weights_(make_shared_weights(options)),
      stage_(options.spec, {&table, state.weights(), state.gradients()}, options.dtype, options.shape, ops,
             rank.threads,
             mesh_.tensor().size() > 1
                 ? &tensor_.emplace(mesh_.tensor(), ops, tensor_sizes(options.spec, options.dtype, options.shape, ops),
                                    options.exchange_cores)
                 : nullptr,
             &weights()) {
  if (!options.optimizer || !options.shape.training) return;
  tied_pair_ = make_tied_pair(mesh_.pipeline(), table);
  optimizer_.emplace(table, state, ops, mesh_.data(), *options.optimizer, tied_pair_.get(),
                     state.shares_weights() ? nullptr : state_ranks());
  if (options.shape.sequence_parallel)
    sequence_sums_.emplace(table, state.gradients(), *tensor_, stage_.context(), &*optimizer_);
}

void Session::wait_for_ranks() {
  Device& device = ops_.device();
  if (device.network()) wait_watching(device.stream().record(), device, rank_.heartbeat);
}

Communicator* Session::state_ranks() {
  if (!state_.is_sharded()) return nullptr;
  return host_group_ ? host_group_.get() : &mesh_.data();
}

/// If the state is sharded, the optimizer's options say which rank owns what.
std::unique_ptr<SharedWeights> Session::make_shared_weights(const SessionOptions& options) {
  if (!state_.shares_weights()) return nullptr;
  return std::make_unique<SharedWeights>(state_, *state_ranks(),
                                         state_ownership(table_, options.optimizer.value(), mesh_.data().size()), ops_,
                                         options.exchange_cores);
}

}  // namespace trireme
