#pragma once
// The first layer: the sum of a row's token, position and type vectors, with a norm in some models. A token matrix of
// another width is projected before the others are added.

#include <optional>

#include "model/linear.h"
#include "model/memory.h"

namespace trireme {

class Embedding {
 public:
  Embedding(const Spec& spec, const ParameterViews& views);
  void forward(const Pass& pass, const EmbeddingSaved& saved, const Workspace& work, View y) const;
  /// work.gradient: gradient of y; overwritten. saved: as forward() left it.
  void backward(const Pass& pass, const EmbeddingSaved& saved, const Workspace& work) const;

 private:
  /// As files of the type say it: their programs round it to the type of the weights.
  float scale_in(DType dtype) const;
  /// y = tokens' rows of the token matrix.
  void look_up(const Pass& pass, View y) const;

  const Spec& spec_;
  std::optional<TableRows> part_;           ///< of the token matrix, where it is cut
  LayerParameter token_, position_, type_;  ///< position_ without the rows before position 0
  View unused_positions_;                   ///< gradient of those rows
  bool filled_later_ = false;               ///< the gradient of the token matrix, by the stage with the tied head
  std::optional<Linear> project_;
  std::optional<Norm> norm_;
};

}  // namespace trireme
