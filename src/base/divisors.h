#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

/// Every divisor of n >= 1, ascending.
std::vector<int64_t> divisors(int64_t n);

/// At most eight divisors of n, those nearest to `wanted` by ratio, as "1, 2, 4".
std::string near_divisors(int64_t n, int64_t wanted);

}  // namespace trireme
