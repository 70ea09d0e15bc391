#pragma once
#include <algorithm>
#include <vector>

namespace trireme {

/// The middle value, or the mean of the two in the middle. Needs at least one value.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace trireme
