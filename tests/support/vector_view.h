#pragma once
// Vectors as tensors of one dim.

#include <span>
#include <vector>

#include "tensor/view.h"

namespace trireme {

template <class T>
View view(std::vector<T>& values) {
  return {std::span(values), Shape{static_cast<int64_t>(values.size())}};
}
template <class T>
ConstView view(const std::vector<T>& values) {
  return {std::span<const T>(values), Shape{static_cast<int64_t>(values.size())}};
}

}  // namespace trireme
