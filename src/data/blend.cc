#include "data/blend.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace trireme {
namespace {

constexpr uint64_t kStride = 1024;
constexpr double kSpare = 1.005;  // the choices do not follow the weights exactly

}  // namespace

Blend::Blend(std::vector<double> weights, uint64_t samples) : weights_(std::move(weights)), samples_(samples) {
  double sum = 0;
  for (const double weight : weights_) {
    require(weight >= 0 && std::isfinite(weight), ErrorKind::usage, "weight {} of a data set: expected a number >= 0",
            weight);
    sum += weight;
  }
  require(sum > 0, ErrorKind::usage, "the weights of the data sets are all 0");
  for (double& weight : weights_) weight /= sum;
  std::vector<uint64_t> taken(weights_.size());
  for (uint64_t i = 0; i < samples_; ++i) {
    if (i % kStride == 0) kept_.insert(kept_.end(), taken.begin(), taken.end());
    ++taken[choose(i, taken.data())];
  }
}

size_t Blend::choose(uint64_t index, const uint64_t* taken) const {
  const double number = std::max(static_cast<double>(index), 1.0);
  size_t best = 0;
  double most = weights_[0] * number - static_cast<double>(taken[0]);
  for (size_t i = 1; i < weights_.size(); ++i) {
    const double error = weights_[i] * number - static_cast<double>(taken[i]);
    if (error <= most) continue;
    most = error;
    best = i;
  }
  return best;
}

Blend::Choice Blend::at(uint64_t index) const {
  assert(index < samples_);
  const auto from = kept_.begin() + static_cast<ptrdiff_t>(index / kStride * weights_.size());
  std::vector<uint64_t> taken(from, from + static_cast<ptrdiff_t>(weights_.size()));
  for (uint64_t i = index / kStride * kStride;; ++i) {
    const size_t set = choose(i, taken.data());
    if (i == index) return {set, taken[set]};
    ++taken[set];
  }
}

uint64_t Blend::needed(size_t set) const {
  return static_cast<uint64_t>(std::ceil(static_cast<double>(samples_) * weights_[set] * kSpare));
}

}  // namespace trireme
