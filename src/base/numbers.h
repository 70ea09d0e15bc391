#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

/// Every divisor of n >= 1, ascending.
std::vector<int64_t> divisors(int64_t n);

/// At most eight divisors of n, those nearest to `wanted` by ratio, as "1, 2, 4".
std::string near_divisors(int64_t n, int64_t wanted);

/// The middle value, or the mean of the two in the middle. Needs at least one value.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace trireme
