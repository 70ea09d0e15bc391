#pragma once
// Exchanges gradients between data ranks, computes their norm, clips and applies the AdamW update (docs/design.md,
// decision 7).
//
// Gradients become ready layer by layer in backward. On the last micro-batch the exchange of a bucket starts as soon as
// all of its range is ready, beside backward, in chunks of at most 256 KiB (optim/reduction_plan.h). Every
// contribution, the owner's own included, is rounded to the wire type, added in f32 in rank order, and the sum rounded
// to the wire type again: the same bits on every rank, whatever the backend. A group of one exchanges nothing and
// rounds nothing.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "config/choices.h"
#include "model/parameter_table.h"
#include "ops/ops.h"
#include "optim/ownership.h"
#include "optim/reducer.h"
#include "optim/shared_weights.h"
#include "optim/training_state.h"

namespace trireme {

// The squared norm of the complete gradient. Each rank computes the values of the chunks that it owns; their exact sum
// (base/exact_sum.h) has the same bits for any number of data ranks.

/// What one rank of a mesh counts. Every value counts once: parameters that all tensor ranks hold count on the first
/// one, a tied matrix on the first stage.
class GradientNorm {
 public:
  /// ownership: of the table's flat elements, of which data rank `rank` counts its own.
  GradientNorm(const ParameterTable& table, const Ownership& ownership, int rank);

  /// summed(first, count): the gradient of elements that the rank owns. values: [count()] f64, of the operators'
  /// device.
  void write_values(const std::function<View(int64_t, int64_t)>& summed, Ops& ops, Context& context, View values) const;
  /// Values of this rank.
  int64_t count() const { return count_; }

 private:
  std::vector<ParameterRange> parts_;  ///< adjacent chunks of one parameter
  int64_t count_ = 0;
};

struct OptimizerOptions {
  AdamW adamw;                       ///< learning_rate, corrections and gradient_scale are set per update
  bool decay_all = false;            ///< weight_decay also applies to biases and norms
  double clip = 1.0;                 ///< 0: off
  DType wire = DType::bf16;          ///< bf16 or f32
  size_t bucket_bytes = 25'000'000;  ///< of the wire type
  bool devices = false;              ///< a library connects the devices of the group's ranks
  bool one_host = true;              ///< all ranks of the group are on this host and share its memory
  HostMap hosts{};                   ///< of the data ranks if the reduction is hierarchical (optim/reduction_plan.h)
  bool by_library = false;           ///< gradients are added by the library that connects the devices
  std::vector<int> exchange_cores;   ///< where messages are sent and received; empty: where its creator runs
  /// Each data rank updates what it owns and keeps only that part of the optimizer's state, the gradients, the weights.
  ShardChoice shard = ShardChoice::none;
  ShardGroup shard_group =
      ShardGroup::all;  ///< host: the data ranks of each host together own everything; needs `hosts`
};

/// True: gradients go from the flat array to their owners' sums after every micro-batch, and each micro-batch
/// overwrites the array. False: the array accumulates micro-batches, and gradients are exchanged once per step.
inline bool exchanges_every_micro_batch(ShardChoice shard, int64_t data_ranks) {
  return data_ranks > 1 && (shard == ShardChoice::gradients || shard == ShardChoice::parameters);
}

/// Which gradient sums and norm values each data rank computes: of the trained elements.
Ownership ownership_of(const ParameterTable& table, const OptimizerOptions& options, int ranks);
/// Which member of a group keeps which part of a sharded state: of all elements, frozen ones, too.
Ownership state_ownership(const ParameterTable& table, const OptimizerOptions& options, int ranks);
/// What data rank `rank` keeps.
KeptState kept_states(const ParameterTable& table, const OptimizerOptions& options, int ranks, int rank);

/// Memory for the exchange of an optimizer over this number of data ranks.
size_t exchange_bytes(const ParameterTable& table, const OptimizerOptions& options, int ranks);

/// Ranks that the device of one of an optimizer's data ranks is connected with, once for each group.
int connected_peers(const ParameterTable& table, const OptimizerOptions& options, int ranks, int rank);

/// Whether another stage also sums a gradient of the tied matrix.
bool is_tied_across(const ParameterTable& table);

class Optimizer final : public GradientSink {
 public:
  /// Collective over data_group and weights_group. Borrows everything. tied_pair: of first and last stage if
  /// both hold a tied matrix that is trained, and gradients are not sharded; else nullptr. weights_group: for update(),
  /// the ranks that share a state whose weights are not sharded; else nullptr.
  Optimizer(const ParameterTable& table, TrainingState& state, Ops& ops, Communicator& data_group,
            const OptimizerOptions& options, Communicator* tied_pair = nullptr, Communicator* weights_group = nullptr);

  bool exchanges_every_micro_batch() const { return state_.shards_gradients(); }
  /// Before the backward of a micro-batch whose gradients are exchanged: from now on ready() starts exchanges. write:
  /// overwrite for the step's first exchange.
  void begin_exchange(Write write = Write::overwrite);
  /// With sharded gradients, returns once all gradients before those of the last ready() call have been moved.
  void begin(ParameterRange range) override;
  /// Ranges come in ascending order and cover [0, gradient_count).
  void ready(ParameterRange range) override;
  /// Waits for the sums and adds the tied matrix's second one. norms = this rank's values of the squared norm of the
  /// complete gradient, which is the exact sum (base/exact_sum.h) of all ranks' values. norms: [norm_values()] f64, of
  /// the operators' device. Throws Error::comm, Error::peer.
  void finish_exchange(Context& context, View norms);
  int64_t norm_values() const { return norm_.count(); }
  /// AdamW over all parameters, or over those that this rank owns, whose weights are then sent to every data rank; t =
  /// updates applied, including this one, from 1. loss_scale: the gradients are those of the loss times it; norm = that
  /// of the gradients / loss_scale.
  void update(Context& context, double learning_rate, int64_t t, double norm, double loss_scale = 1);

  /// Times of the last step.
  const ExchangeTimes& last_exchange() const { return times_; }

 private:
  void finish_reduction();
  void add_to_sums(Context& context, ParameterRange range);
  void add_tied_sum(Context& context);

  const ParameterTable& table_;
  TrainingState& state_;
  Ops& ops_;
  OptimizerOptions options_;
  Ownership ownership_, state_ownership_;
  GradientNorm norm_;
  std::unique_ptr<StreamGroup> weights_group_;  ///< of a sharded state whose weights are not sharded, as the next one
  std::optional<Gatherer> gatherer_;
  std::optional<TiedSum> other_stage_;  ///< if it also holds the tied matrix
  ParameterRange last_ready_;
  Write write_ = Write::overwrite;  ///< of the current exchange
  bool exchanging_ = false;
  ExchangeTimes times_;
  Reducer reducer_;  ///< last: its groups use the others
};

}  // namespace trireme
