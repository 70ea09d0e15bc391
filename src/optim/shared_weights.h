#pragma once
// Weights sharded over data ranks (optim.shard parameters): each rank keeps those that it owns and gets a layer's other
// weights from their owners when the layer computes. A separate thread fetches the next layer's weights meanwhile;
// weights that no layer needs any more are released.

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "optim/gatherer.h"
#include "optim/training_state.h"

namespace trireme {

class SharedWeights final : public WeightSource {
 public:
  /// Borrows everything; `group`, the data ranks, belongs to the thread from now on. state: its weights are sharded.
  /// cpus: where the thread runs; empty: where its creator does.
  SharedWeights(const TrainingState& state, Communicator& group, Ownership ownership, Device& device,
                std::vector<int> cpus);
  ~SharedWeights() override;
  SharedWeights(const SharedWeights&) = delete;
  SharedWeights& operator=(const SharedWeights&) = delete;

  /// Collective over the group, as the following functions. Throws the thread's error (Error::comm, Error::peer); after
  /// that the job must end.
  void need(ParameterRange range, ParameterRange next) override;
  void done(ParameterRange range) override;
  uint64_t bytes_sent() const;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace trireme
