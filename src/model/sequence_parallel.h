#pragma once
// Gradients of parameters that every tensor rank holds completely and uses for its own rows (mesh.sequence): norms,
// biases of layers cut by columns, positions, types, projections. They are complete once they are summed over the
// tensor ranks, which is done once a step, when they are ready.

#include <vector>

#include "model/parameter_table.h"
#include "model/tensor_group.h"

namespace trireme {

class SequenceParallelSums final : public GradientSink {
 public:
  /// Borrows everything. gradients: the table's flat array. next: notified after the sums of a range are made; may be
  /// null.
  SequenceParallelSums(const ParameterTable& table, View gradients, TensorGroup& tensor, Context& context,
                       GradientSink* next);
  void begin(ParameterRange range) override {
    if (next_) next_->begin(range);
  }
  /// Collective over the tensor ranks.
  void ready(ParameterRange range) override;

 private:
  TensorGroup& tensor_;
  Context& context_;
  GradientSink* next_;
  std::vector<std::vector<View>> sums_;  ///< by ready range
  std::vector<ParameterRange> ranges_;
};

}  // namespace trireme
