#include "base/rng.h"

#include <cmath>
#include <numbers>

namespace trireme {

double normal_at(uint64_t key, uint64_t index) {
  const auto w = philox(key, {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 1});
  const double u =
      (static_cast<double>(uint64_t{w[0]} << 21 ^ w[1]) + 0.5) * 0x1p-53;  // never 0, so the logarithm is finite
  const double v = static_cast<double>(uint64_t{w[2]} << 21 ^ w[3]) * 0x1p-53;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace trireme
