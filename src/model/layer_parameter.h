#pragma once
// A parameter as its layer sees it.

#include <string>

#include "model/parameter_table.h"

namespace trireme {

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

}  // namespace trireme
