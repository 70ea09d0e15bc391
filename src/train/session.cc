#include "train/session.h"

namespace trireme {

Session::Session(const SessionOptions& options, const ParameterTable& table, TrainingState& state, Ops& ops,
                 const RankContext& rank)
    : table_(table),
      state_(state),
      ops_(ops),
      rank_(rank),
      mesh_(rank.world, options.mesh),
      scalars_(mesh_.world()),
      stage_(options.spec, {&table, state.weights(), state.gradients()}, options.dtype, options.shape, ops,
             rank.threads) {
  if (!options.optimizer) return;
  exchange_group_ = mesh_.data().split(0, mesh_.data().rank());
  exchange_group_->report_to(rank.progress);
  optimizer_.emplace(table, state, ops, *exchange_group_, *options.optimizer);
}

}  // namespace trireme
