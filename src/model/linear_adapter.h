#pragma once
// The low-rank adapters of one linear, which its layer calls. The layer has the sum over tensor ranks: of a linear that
// is cut by columns every rank adds its part, scale B (its part of A) (its inputs).

#include <string>
#include <vector>

#include "model/adapters.h"
#include "model/parameter_table.h"
#include "model/pass.h"

namespace trireme {

// A parameter as its layer sees it.

/// A model's flat arrays, as layers see them. gradients is empty where nothing is trained.
struct ParameterViews {
  const ParameterTable* table = nullptr;
  View weights;
  View gradients;
};

/// One parameter: its value and where its gradient goes, which is empty for a frozen one. Absent parameters (no bias)
/// are empty.
struct LayerParameter {
  ConstView value;
  View gradient;
  LayerParameter() = default;
  LayerParameter(const ParameterViews& views, const std::string& name) {
    const Parameter& parameter = views.table->find(name);
    value = view_of(views.weights, parameter);
    gradient = gradient_of(views.gradients, parameter);
  }
  bool trained() const { return !gradient.empty(); }
};

class LinearAdapter {
 public:
  /// Of a linear of a block, by its name; empty if it has no adapters.
  LinearAdapter(const ParameterViews& views, const std::string& linear);
  bool empty() const { return parts_.empty(); }
  /// A gradient of it needs the inputs.
  bool trained() const;
  /// Outputs have magnitudes.
  bool has_magnitudes() const { return has_magnitudes_; }

  // x: [all rows, this rank's inputs]; y, dy: [all rows, this rank's outputs].

  /// y = x weight^T + bias + scale B A dropout(x), weight and bias being the linear's.  bias: may be empty.
  void forward(const Pass& pass, ConstView x, ConstView weight, ConstView bias, View y) const;
  /// Weight gradients from dy and the forward's x. Returns the gradient of A's outputs, [rows, rank], this rank's part
  /// where outputs are cut: scratch memory, for input_gradient() or add_input_gradient().
  View backward(const Pass& pass, ConstView dy, ConstView x) const;
  /// dx = dy weight + the gradient through A and dropout.
  void input_gradient(const Pass& pass, ConstView dy, ConstView weight, ConstView inner, View dx) const;
  /// dx += the gradient through A and dropout.
  void add_input_gradient(const Pass& pass, ConstView inner, View dx) const;

  // With magnitudes; weight: the linear's. They sum over tensor ranks what is cut.

  /// y = y * magnitude / |row of weight + scale B A| + bias, of each output that has a magnitude.  bias: may be empty.
  void scale(const Pass& pass, ConstView weight, ConstView bias, View y) const;
  /// The gradient of scale()'s y before it, from dy: scratch memory. Magnitudes' gradients, for which the outputs are
  /// computed again.
  View scale_backward(const Pass& pass, ConstView weight, ConstView dy, ConstView x) const;

 private:
  struct Part {
    LayerParameter b, magnitudes;
    RowPattern outputs;
    int64_t column, rank;
    float scale;
  };
  int64_t rank() const { return a_.value.shape()[0]; }
  Dropout dropout(const Pass& pass) const;
  ConstView dropped(const Pass& pass, ConstView x) const;
  /// scale B of all parts at their outputs, [outputs, rank].
  View placed(const Pass& pass, int64_t outputs) const;
  void backward_parts(const Pass& pass, ConstView dy, ConstView inner) const;
  struct Factors {
    View factors, inverses;  ///< magnitude / length and 1 / length of each output, [outputs] S
  };
  Factors factors(const Pass& pass, ConstView weight) const;

  LayerParameter a_;
  std::vector<Part> parts_;
  float rate_ = 0;
  uint32_t layer_ = 0, site_ = 0;
  bool cut_inputs_ = false, has_magnitudes_ = false;
};

/// Scratch of the largest call for that many rows, besides its operators'.
size_t adapter_scratch_bytes(const Spec& spec, int tensor_size, DType dtype, int64_t rows, bool training);

}  // namespace trireme
