#pragma once
// The weights of a step of GPT-NeoX: every tensor that the model needs, with the expected shape, on every tensor rank.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/neox/element_source.h"
#include "checkpoint/neox/names.h"
#include "checkpoint/neox/step.h"
#include "checkpoint/torch/tensor.h"
#include "model/parameter_table.h"

namespace trireme {

/// The model that a step's configuration describes.
struct NeoxModel {
  Spec spec;
  std::vector<NeoxRule> rules;
  std::vector<ParameterTable> tables;  ///< by tensor rank
};

class NeoxWeights {
 public:
  /// step: borrowed. Throws Error::data.
  explicit NeoxWeights(const NeoxStep& step);

  /// Rows of the embedding over all tensor ranks, with NeoX's padding.
  int64_t vocabulary_rows() const { return vocabulary_rows_; }
  /// Compares with the model. Throws Error::data listing every missing, unexpected or wrong tensor.
  void check(const NeoxModel& model);
  /// After check(): the weight of the rule with this index.
  const ElementSource& source(size_t rule, int64_t tensor_rank) const {
    return *sources_[static_cast<size_t>(tensor_rank)][rule];
  }

 private:
  using Weights = std::map<std::string, std::pair<TorchTensor, const std::string*>>;  // with the file

  Weights weights_of(int64_t tensor_rank) const;
  int64_t count_vocabulary_rows() const;
  void check_layers(const NeoxModel& model, std::vector<std::string>& faults) const;

  const NeoxStep& step_;
  std::vector<Weights> weights_;  // by tensor rank; after check(): those that no rule matches
  int64_t vocabulary_rows_ = 0;
  std::vector<std::vector<std::unique_ptr<ElementSource>>> sources_;  // by tensor rank, then rule
};

}  // namespace trireme
