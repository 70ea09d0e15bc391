#pragma once
// Weights that data ranks share (optim.shard parameters): each keeps those that it owns, and everyone gets a layer's
// from their owners when the layer computes. The next layer's come meanwhile, on a thread of their own; what no layer
// reads any more is released.

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "optim/gatherer.h"
#include "optim/training_state.h"

namespace trireme {

class SharedWeights final : public WeightSource {
 public:
  /// Borrows everything; `group`, the data ranks, from now on belongs to the thread. state: shares its weights.
  /// cpus: where the thread runs; empty: where its creator does.
  SharedWeights(const TrainingState& state, Communicator& group, Ownership ownership, Device& device,
                std::vector<int> cpus);
  ~SharedWeights() override;
  SharedWeights(const SharedWeights&) = delete;
  SharedWeights& operator=(const SharedWeights&) = delete;

  /// Collective over the group, as what follows it. Throws what failed on the thread (Error::comm, Error::peer); after
  /// that the job must end.
  void need(ParameterRange range, ParameterRange next) override;
  void done(ParameterRange range) override;
  uint64_t bytes_sent() const;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace trireme
