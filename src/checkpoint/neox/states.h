#pragma once
// The optimizer's states of a step of GPT-NeoX: those of all its ranks, compared with the model.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/neox/element_source.h"
#include "checkpoint/neox/names.h"
#include "checkpoint/neox/step.h"
#include "checkpoint/neox/weights.h"
#include "checkpoint/torch/value.h"
#include "model/parameter_table.h"
#include "optim/loss_scale.h"

namespace trireme {

// The optimizer's state of one rank of the mesh of tensor ranks and pipeline stages. DeepSpeed flattens its parameters,
// those with weight decay and those without each into one array, pads it to a multiple of 2 x data ranks and gives
// every data rank an equal part of it; without ZeRO each parameter has its own arrays, or the flat one is complete.

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
  /// The loss scale of fp16; 0: none.
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

class NeoxStates {
 public:
  /// step and model: borrowed. Throws Error::data listing every state that is missing or does not fit.
  NeoxStates(const NeoxStep& step, const NeoxModel& model);

  bool empty() const { return optimizers_.empty(); }  ///< the step holds weights only
  int64_t updates() const { return optimizers_.front()->step(); }
  /// The loss scale of a run in fp16.
  const std::optional<LossScale>& loss_scale() const { return optimizers_.front()->loss_scale(); }
  /// The state of a tensor rank's part of a parameter, on whichever stage it is; null if there is none.
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

// Joins the tensors of tensor ranks into a process's part of the complete one; reads only the needed parts of files.

/// A tensor rank's box of a tensor, row-major from an element of a source on.
struct NeoxPiece {
  const ElementSource* source;
  uint64_t first;
};

class NeoxJoiner {
 public:
  /// tables: the part of each tensor rank of the files; borrowed. folder: for warnings.
  NeoxJoiner(const std::vector<ParameterTable>& tables, std::string folder)
      : tables_(tables), folder_(std::move(folder)) {}

  /// Gives `store` the values of the part of the parameter that `own` holds: place in own's box, values. pieces: by
  /// tensor rank. Copies that are not the same on all ranks are averaged; shares are summed; both in f64.
  void join(const NeoxRule& rule, const Parameter& own, NeoxJoin how, std::span<const NeoxPiece> pieces,
            const std::function<void(int64_t, std::span<const float>)>& store);

  uint64_t bytes_read() const { return bytes_read_; }
  /// One warning about all copies that were far apart.
  void tell() const;

 private:
  void read_box(const NeoxPiece& piece, const Box& box, const Parameter& own,
                const std::function<void(int64_t, std::span<const float>)>& store);

  const std::vector<ParameterTable>& tables_;
  std::string folder_;
  std::vector<float> buffer_;
  uint64_t bytes_read_ = 0;
  size_t apart_ = 0;
  double furthest_ = 0;
  std::string furthest_name_;
};

}  // namespace trireme
