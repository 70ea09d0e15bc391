#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

/// Every divisor of n >= 1, ascending.
std::vector<int64_t> divisors(int64_t n);

/// At most eight of the divisors of n, those next to `wanted` in ratio, as "1, 2, 4".
std::string near_divisors(int64_t n, int64_t wanted);

}  // namespace trireme
