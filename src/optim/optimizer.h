#pragma once
// Owns the exchange of gradients between data ranks, their norm, clipping and the AdamW update (docs/design.md,
// decision 7).
//
// Gradients become ready layer by layer in backward. On the last micro-batch the exchange of a bucket starts as soon as
// all of its range is ready, on a progress thread, in chunks of at most 1 MiB. Every contribution, the owner's own
// included, is rounded to the wire type, added in f32 in rank order, and the sum rounded to the wire type again: the
// same bits on every rank, whatever the backend. A group of one exchanges nothing and rounds nothing.

#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "config/choices.h"
#include "model/parameter_table.h"
#include "ops/ops.h"
#include "optim/gatherer.h"
#include "optim/gradient_norm.h"
#include "optim/reducer.h"
#include "optim/tied_sum.h"
#include "optim/training_state.h"

namespace trireme {

struct OptimizerOptions {
  AdamW adamw;                       ///< learning_rate, corrections and gradient_scale are set per update
  bool decay_all = false;            ///< weight_decay is for biases and norms too
  double clip = 1.0;                 ///< 0: off
  DType wire = DType::bf16;          ///< bf16 or f32
  size_t bucket_bytes = 25'000'000;  ///< of the wire type
  bool one_host = true;              ///< all ranks of the group are on this host
  HostMap hosts{};                   ///< of the data ranks if the reduction is hierarchical (optim/reduction_plan.h)
  std::vector<int> exchange_cores;   ///< the exchange thread runs on these; empty: where its creator does
  std::optional<MeshShape> mesh{};   ///< what the gradient is spread over; none: the data group alone
  /// Each data rank updates what it owns and keeps the optimizer's state, the gradients, the weights of that alone.
  ShardChoice shard = ShardChoice::none;
  ShardGroup shard_group = ShardGroup::all;  ///< host: each host's data ranks own everything among them; needs `hosts`
};

/// Gradients leave the flat array for their owners' sums micro-batch by micro-batch, each of which overwrites it; else
/// it adds micro-batches up, and they are exchanged once a step.
inline bool exchanges_every_micro_batch(ShardChoice shard, int64_t data_ranks) {
  return data_ranks > 1 && (shard == ShardChoice::gradients || shard == ShardChoice::parameters);
}

/// Whose gradients' sums and values of the norm each of so many data ranks makes.
Ownership ownership_of(const ParameterTable& table, const OptimizerOptions& options, int ranks);
/// Who keeps what of a state that is shared, among the members of a group that shares it.
Ownership state_ownership(const ParameterTable& table, const OptimizerOptions& options, int ranks);
/// What data rank `rank` of so many keeps.
KeptState kept_states(const ParameterTable& table, const OptimizerOptions& options, int ranks, int rank);

/// Memory that an optimizer over so many data ranks takes for its exchange.
size_t exchange_bytes(const ParameterTable& table, const OptimizerOptions& options, int ranks);

class Optimizer final : public GradientSink {
 public:
  /// Borrows everything; `data_group` is used by this object's progress thread alone. tied_pair: of first and last
  /// stage where they hold a tied matrix each, which do not share gradients; else nullptr. weights_group: the ranks
  /// that share a state whose weights everyone has, for update(); else nullptr.
  Optimizer(const ParameterTable& table, TrainingState& state, Ops& ops, Communicator& data_group,
            const OptimizerOptions& options, Communicator* tied_pair = nullptr, Communicator* weights_group = nullptr);

  bool exchanges_every_micro_batch() const { return state_.shares_gradients(); }
  /// Before the backward of a micro-batch whose gradients are exchanged: from here on ready() starts exchanges. write:
  /// overwrite for the step's first exchange.
  void begin_exchange(Write write = Write::overwrite);
  /// Where ranks share gradients, returns once those before the ones that ready() was told of last have left.
  void begin(ParameterRange range) override;
  /// Ranges come in ascending order and cover [0, gradient_count).
  void ready(ParameterRange range) override;
  /// Waits for the sums and adds the tied matrix' second one. Gives this rank's values of the squared norm of the
  /// complete gradient: of the chunks that it owns, in table order, as many on every rank (the last ones may be
  /// unused). Valid until the next step. Throws Error::comm, Error::peer.
  std::span<const double> finish_exchange(Context& context);
  /// The squared norm (f64, per parameter in table order) from the values of all ranks of the mesh, in rank order.
  double squared_norm(std::span<const double> values) const;
  /// AdamW over all parameters, or over what this rank owns, whose weights then reach every data rank; t = updates
  /// applied, this one included, from 1. norm = sqrt(squared_norm()).
  void update(Context& context, double learning_rate, int64_t t, double norm);

  /// Of a step.
  const ExchangeTimes& last_exchange() const { return times_; }

 private:
  void finish_reduction();
  void add_to_sums(Context& context, ParameterRange range);
  void add_tied_sum(Context& context);

  const ParameterTable& table_;
  TrainingState& state_;
  Ops& ops_;
  OptimizerOptions options_;
  int rank_;
  Ownership ownership_, state_ownership_;
  GradientNorm norm_;
  MeshNorm mesh_norm_;
  std::optional<Gatherer> gatherer_;    ///< of a sharded state whose weights everyone has
  Heartbeat* heartbeat_ = nullptr;      ///< waits for it are told there
  std::optional<TiedSum> other_stage_;  ///< where it holds the tied matrix, too
  ParameterRange last_ready_;
  Write write_ = Write::overwrite;  ///< of the exchange under way
  bool exchanging_ = false;
  ExchangeTimes times_;
  Reducer reducer_;  ///< last: its thread uses the others
};

}  // namespace trireme
