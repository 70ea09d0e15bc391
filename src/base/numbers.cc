#include "base/numbers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace trireme {

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> low, high;
  for (int64_t i = 1; i * i <= n; ++i) {
    if (n % i != 0) continue;
    low.push_back(i);
    if (i != n / i) high.push_back(n / i);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

std::string near_divisors(int64_t n, int64_t wanted) {
  std::vector<int64_t> all = divisors(n);
  const auto distance = [&](int64_t d) {
    return std::abs(std::log(static_cast<double>(d) / static_cast<double>(wanted)));
  };
  std::stable_sort(all.begin(), all.end(), [&](int64_t a, int64_t b) { return distance(a) < distance(b); });
  constexpr size_t kShown = 8;
  if (all.size() > kShown) all.resize(kShown);
  std::sort(all.begin(), all.end());
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace trireme
