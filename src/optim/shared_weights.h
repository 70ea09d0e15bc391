#pragma once
// Weights sharded over data ranks (optim.shard parameters): each rank keeps those that it owns and gets a layer's other
// weights from their owners when the layer computes. The next layer's weights are gathered meanwhile
// (comm/stream_group.h); weights that no layer needs any more are released.

#include <algorithm>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/stream_group.h"
#include "ops/ops.h"
#include "optim/ownership.h"
#include "optim/training_state.h"

namespace trireme {

// Sends what each rank owns of a flat array to all ranks: weights that their owners updated, in the array's type.

class Gatherer {
 public:
  /// Borrows both.
  Gatherer(StreamGroup& group, const Ownership& ownership);
  /// Sends every rank's owned elements of `flat` to all ranks, without copies, once `after` is reached; returns the
  /// event of the end. `flat` has any type and the elements that the ownership divides.
  Event gather(View flat, const Event& after) { return gather(flat, {0, flat.count()}, after); }
  /// The same for a range of it.
  Event gather(View flat, ParameterRange range, const Event& after);
  uint64_t bytes_sent() const { return group_.bytes_sent(); }  ///< of the group, since its construction

 private:
  StreamGroup& group_;
  const Ownership& ownership_;
};

class SharedWeights final : public WeightSource {
 public:
  /// Collective over the ranks that share the state. Borrows everything. state: its weights are sharded. cpus: where
  /// messages are sent and received; empty: where its creator runs.
  SharedWeights(const TrainingState& state, Communicator& ranks, Ownership ownership, Ops& ops, std::vector<int> cpus);
  SharedWeights(const SharedWeights&) = delete;
  SharedWeights& operator=(const SharedWeights&) = delete;

  /// Collective over the group, as the following functions. Throws the thread's error (Error::comm, Error::peer); after
  /// that the job must end.
  void need(ParameterRange range, ParameterRange next) override;
  void done(ParameterRange range) override;
  uint64_t bytes_sent() const { return group_->bytes_sent(); }

 private:
  /// Weights that are present or on their way.
  struct Layer {
    ParameterRange weights;
    int readers = 0;
    Event arrival;
  };
  std::vector<Layer>::iterator find(ParameterRange range) { return std::ranges::find(layers_, range, &Layer::weights); }
  /// Gathers missing weights.
  Layer& look_up(ParameterRange range);

  const TrainingState& state_;
  const Ownership ownership_;
  Device& device_;
  std::vector<Layer> layers_;
  Event released_;  ///< memory of all weights that are not needed any more
  std::unique_ptr<StreamGroup> group_;
  Gatherer gatherer_;
};

}  // namespace trireme
