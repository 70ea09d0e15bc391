#pragma once
// Shared by tests of the exchange of gradients: contributions, and connections of ranks.

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "comm/local/local_group.h"
#include "ops/ops.h"
#include "tensor/dtype.h"

namespace trireme {

inline Ops* test_ops() {
  static const std::unique_ptr<Ops> ops = make_cpu_ops();
  return ops.get();
}

/// Values of many magnitudes, which reveal the order of additions.
inline std::vector<float> gradients_of(int rank, size_t n, unsigned step) {
  std::mt19937 random(static_cast<unsigned>(rank) * 1000 + step);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-12, 12);
  std::vector<float> values(n);
  for (float& v : values) v = std::ldexp(normal(random), exponent(random));
  return values;
}

inline float rounded(float x, DType wire) { return wire == DType::bf16 ? to_float(to_bf16(x)) : x; }

/// The sum of gradients_of() all ranks: every contribution rounded, added in f32 in rank order, rounded; a rank alone
/// rounds nothing.
inline std::vector<float> expected_sum(size_t n, DType wire, int ranks, unsigned step) {
  std::vector<float> sum = gradients_of(0, n, step);
  if (ranks == 1) return sum;
  for (float& v : sum) v = rounded(v, wire);
  for (int r = 1; r < ranks; ++r) {
    const auto x = gradients_of(r, n, step);
    for (size_t i = 0; i < n; ++i) sum[i] += rounded(x[i], wire);
  }
  for (float& v : sum) v = rounded(v, wire);
  return sum;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

/// Connections of the ranks, which must not change any bit.
inline std::vector<LocalOptions> connections() {
  return {{},
          {.rendezvous = true},
          {.progress_in_test = true},
          {.delay = random_delays(11, std::chrono::microseconds(300)), .rendezvous = true, .progress_in_test = true}};
}

}  // namespace trireme
