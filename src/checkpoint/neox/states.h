#pragma once
// The optimizer's states of a step of GPT-NeoX: those of all its ranks, compared with the model.

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "checkpoint/neox/optimizer.h"
#include "checkpoint/neox/step.h"
#include "checkpoint/neox/weights.h"

namespace trireme {

class NeoxStates {
 public:
  /// step and model: borrowed. Throws Error::data listing every state that is missing or does not fit.
  NeoxStates(const NeoxStep& step, const NeoxModel& model);

  bool empty() const { return optimizers_.empty(); }  ///< the step holds weights only
  int64_t updates() const { return optimizers_.front()->step(); }
  /// Of a run in fp16.
  const std::optional<LossScale>& loss_scale() const { return optimizers_.front()->loss_scale(); }
  /// Of a tensor rank's part of a parameter, on whichever stage it is; null if there is none.
  const NeoxState* find(const NeoxRule& rule, int64_t tensor_rank) const;

 private:
  void open_data_ranks();
  NeoxGroups groups_of(int64_t rank) const;
  NeoxGroups derived_groups(int64_t rank) const;
  void check() const;

  const NeoxStep& step_;
  const NeoxModel& model_;
  int64_t data_ranks_ = 1;
  std::map<std::pair<int64_t, int64_t>, TorchArchive> archives_;  // by rank and data rank
  std::vector<std::unique_ptr<NeoxOptimizer>> optimizers_;        // by rank
};

}  // namespace trireme
