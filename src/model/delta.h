#pragma once
// What lies between the two linears of a layer whose heads have a state: a short convolution of queries, keys and
// values, the gated delta rule, the norm with a gate.

#include "model/linear_adapter.h"
#include "model/memory.h"

namespace trireme {

class Delta {
 public:
  Delta(const Spec& spec, const ParameterViews& views, int64_t index);

  /// From saved.projected: saved.delta and saved.states, and the result in gated(work). cache: of generation, or null.
  void forward(const Pass& pass, const BlockSaved& saved, const Workspace& work, ConstView past,
               const LayerCache* cache) const;
  /// saved.delta and saved.states again.
  void recompute(const Pass& pass, const BlockSaved& saved, const Workspace& work) const;
  /// The result again, from saved.delta.
  void gate(const Pass& pass, const BlockSaved& saved, const Workspace& work) const;
  /// work.projected_gradient from work.delta_gradient, that of the result.
  void backward(const Pass& pass, const BlockSaved& saved, const Workspace& work) const;
  /// [rows, this rank's values]
  View gated(const Pass& pass, const Workspace& work) const;

 private:
  DeltaShape shape(const Pass& pass) const;
  int64_t gates_column() const;
  void norm_backward(const Pass& pass, const BlockSaved& saved, const Workspace& work) const;

  const Spec& spec_;
  const Layout& layout_;
  LayerParameter convolution_, decay_log_, decay_bias_, gain_;
};

}  // namespace trireme
