#include "train/session.h"

namespace trireme {
namespace {

/// A group of first and last stage; nullptr on the others, and where no matrix is tied across stages. Collective.
std::unique_ptr<Communicator> make_tied_pair(Communicator& pipeline, const Spec& spec) {
  if (pipeline.size() == 1 || !spec.tied_head) return nullptr;
  const bool holds = pipeline.rank() == 0 || pipeline.rank() + 1 == pipeline.size();
  auto group = pipeline.split(holds ? 0 : 1, pipeline.rank());
  if (!holds) return nullptr;
  group->report_to(pipeline.heartbeat());
  return group;
}

std::unique_ptr<Communicator> own_group(Communicator& axis, Heartbeat* heartbeat) {
  auto group = axis.split(0, axis.rank());
  group->report_to(heartbeat);
  return group;
}

/// The ranks that share the state with this data rank.
std::unique_ptr<Communicator> state_group(Communicator& data, const OptimizerOptions& options, Heartbeat* heartbeat) {
  if (options.shard_group == ShardGroup::all) return own_group(data, heartbeat);
  auto group = data.split(options.hosts.host_of(data.rank()), data.rank());
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
      scalars_(mesh_.world()),
      tensor_group_(mesh_.tensor().size() > 1 ? own_group(mesh_.tensor(), rank.heartbeat) : nullptr),
      weights_group_(state.is_sharded() ? state_group(mesh_.data(), options.optimizer.value(), rank.heartbeat)
                                        : nullptr),
      links_(mesh_.pipeline(), ops.device(), mesh_.shape().chunks, options.dtype,
             options.shape.own_rows(mesh_.tensor().size()), options.spec.width, options.exchange_cores),
      shared_weights_(make_shared_weights(options)),
      stage_(options.spec, {&table, state.weights(), state.gradients()}, options.dtype, options.shape, ops,
             rank.threads,
             tensor_group_
                 ? &tensor_.emplace(*tensor_group_, ops, tensor_sizes(options.spec, options.dtype, options.shape, ops),
                                    options.exchange_cores)
                 : nullptr,
             &weights()) {
  if (!options.optimizer || !options.shape.training) return;
  exchange_group_ = own_group(mesh_.data(), rank.heartbeat);
  tied_pair_ = make_tied_pair(mesh_.pipeline(), options.spec);
  OptimizerOptions optimizer = *options.optimizer;
  optimizer.mesh = mesh_.shape();
  optimizer_.emplace(table, state, ops, *exchange_group_, optimizer, tied_pair_.get(),
                     state.shares_weights() ? nullptr : weights_group_.get());
  if (options.shape.sequence_parallel)
    sequence_sums_.emplace(table, state.gradients(), *tensor_, stage_.context(), &*optimizer_);
}

/// If the state is sharded, the optimizer's options say which rank owns what.
std::unique_ptr<SharedWeights> Session::make_shared_weights(const SessionOptions& options) {
  if (!state_.shares_weights()) return nullptr;
  return std::make_unique<SharedWeights>(state_, *weights_group_,
                                         state_ownership(table_, options.optimizer.value(), mesh_.data().size()),
                                         ops_.device(), options.exchange_cores);
}

}  // namespace trireme
