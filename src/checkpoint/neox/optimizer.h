#pragma once
// The optimizer's state of one rank of the mesh of tensor ranks and pipeline stages. DeepSpeed flattens its parameters,
// those with weight decay and those without each into one array, pads it to a multiple of 2 x data ranks and gives
// every data rank an equal part of it; without ZeRO each parameter has its own arrays, or the flat one is complete.

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/neox/element_source.h"
#include "checkpoint/torch/value.h"
#include "optim/loss_scale.h"

namespace trireme {

/// Name and shape of a parameter, in the order of the flat array.
struct NeoxShape {
  std::string name;
  std::vector<int64_t> shape;
  std::string path;  ///< where it was found, for errors
};
using NeoxGroups = std::vector<std::vector<NeoxShape>>;

/// Parts of a parameter's state. ZeRO's files without the masters' padding (fp16) and with it (bf16) are alike here.
struct NeoxState {
  const ElementSource *master = nullptr, *m = nullptr, *v = nullptr;  ///< master: null, the weights are it
  uint64_t first = 0;                                                 ///< element in each
};

class NeoxOptimizer {
 public:
  /// The files of all data ranks, in their order; groups as mp_rank's param_shapes says. Throws Error::data.
  NeoxOptimizer(std::span<const TorchArchive* const> data_ranks, const NeoxGroups& groups);
  /// A complete state, `optimizer` of an mp_rank file.
  NeoxOptimizer(const TorchValue& optimizer, const NeoxGroups& groups, const std::string& file);

  NeoxOptimizer(const NeoxOptimizer&) = delete;
  NeoxOptimizer& operator=(const NeoxOptimizer&) = delete;

  const NeoxState* find(const std::string& name) const;
  int64_t step() const { return step_; }  ///< updates that Adam has made
  /// Of fp16; 0: none.
  const std::optional<LossScale>& loss_scale() const { return loss_scale_; }

 private:
  struct Group {
    ElementSource master, m, v;
  };
  void take_step(const TorchValue& state, const TorchValue& group);
  void add_part(Group& group, const TorchValue& state, const TorchValue* master, uint64_t begin, uint64_t most,
                const std::string& file);
  void place(const NeoxGroups& groups);

  std::vector<std::unique_ptr<Group>> groups_;
  std::map<std::string, NeoxState> states_;
  int64_t step_ = -1;
  std::optional<LossScale> loss_scale_;
};

/// Elements of the complete state of a rank in any form: how many parameters its stage has.
uint64_t neox_state_elements(const TorchValue& optimizer);

}  // namespace trireme
