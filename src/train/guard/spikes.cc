#include "train/guard/spikes.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme {
namespace {

constexpr double kForget = 0.02;
constexpr int64_t kFewest = 50;
constexpr double kLeastDeviation = 0.01;

}  // namespace

void add_loss(LossTrend& trend, double loss) {
  // The first losses have equal weight, so that the very first one soon leaves the mean.
  const double weight = std::max(kForget, 1.0 / static_cast<double>(++trend.count));
  const double deviation = loss - trend.mean;
  trend.mean += weight * deviation;
  trend.variance = (1 - weight) * (trend.variance + weight * deviation * deviation);
}

double spike_limit(const LossTrend& trend, double score) {
  if (score == 0 || trend.count < kFewest) return std::numeric_limits<double>::infinity();
  return trend.mean + score * std::max(std::sqrt(trend.variance), kLeastDeviation * std::abs(trend.mean));
}

}  // namespace trireme
