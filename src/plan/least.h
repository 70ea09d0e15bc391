#pragma once
#include <functional>
#include <vector>

namespace trireme {

/// The point near `start` where `cost` is least, by the simplex method of Nelder and Mead 1965. step: the first
/// simplex' edge. Deterministic; at most 400 steps per dimension.
std::vector<double> least_point(const std::function<double(const std::vector<double>&)>& cost,
                                const std::vector<double>& start, double step);

}  // namespace trireme
