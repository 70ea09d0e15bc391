#include "plan/measured_runs.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace trireme {
namespace {

struct Corner {
  std::vector<double> at;
  double cost = 0;
};

/// from + share x (to - from).
std::vector<double> between(const std::vector<double>& from, const std::vector<double>& to, double share) {
  std::vector<double> point(from.size());
  for (size_t i = 0; i < point.size(); ++i) point[i] = from[i] + share * (to[i] - from[i]);
  return point;
}

}  // namespace

std::vector<double> least_point(const std::function<double(const std::vector<double>&)>& cost,
                                const std::vector<double>& start, double step) {
  const size_t dimensions = start.size();
  std::vector<Corner> simplex{{start, cost(start)}};
  for (size_t i = 0; i < dimensions; ++i) {
    std::vector<double> point = start;
    point[i] += step;
    simplex.push_back({point, cost(point)});
  }
  const auto cheaper = [](const Corner& a, const Corner& b) { return a.cost < b.cost; };
  for (size_t round = 0; round < 400 * dimensions; ++round) {
    std::ranges::stable_sort(simplex, cheaper);
    if (simplex.back().cost - simplex.front().cost < 1e-9) break;
    std::vector<double> centre(dimensions, 0.0);
    for (size_t c = 0; c < dimensions; ++c) {
      for (size_t i = 0; i < dimensions; ++i) centre[i] += simplex[c].at[i] / static_cast<double>(dimensions);
    }
    Corner& worst = simplex.back();
    const auto at = [&](double share) {
      Corner corner{between(centre, worst.at, share), 0};
      corner.cost = cost(corner.at);
      return corner;
    };
    Corner reflected = at(-1);
    if (reflected.cost < simplex.front().cost) {
      Corner further = at(-2);
      worst = further.cost < reflected.cost ? std::move(further) : std::move(reflected);
    } else if (reflected.cost < simplex[dimensions - 1].cost) {
      worst = std::move(reflected);
    } else {
      Corner nearer = at(reflected.cost < worst.cost ? -0.5 : 0.5);
      if (nearer.cost < std::min(worst.cost, reflected.cost)) {
        worst = std::move(nearer);
        continue;
      }
      for (size_t c = 1; c < simplex.size(); ++c) {
        simplex[c].at = between(simplex[0].at, simplex[c].at, 0.5);
        simplex[c].cost = cost(simplex[c].at);
      }
    }
  }
  return std::ranges::min_element(simplex, cheaper)->at;
}

}  // namespace trireme
