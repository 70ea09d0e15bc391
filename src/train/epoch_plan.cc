#include "train/epoch_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/rng.h"

namespace trireme {
namespace {

constexpr uint64_t kEpochStream = 3;  // beside SampleStream::training and SampleStream::evaluation

}  // namespace

int64_t EpochPlan::total_steps(double epochs, int64_t most_steps) const {
  if (most_steps > 0) return most_steps;
  return static_cast<int64_t>(std::ceil(epochs * static_cast<double>(steps_per_epoch())));
}

EpochPlan::Step EpochPlan::at(uint64_t consumed) const {
  const auto seen = static_cast<int64_t>(consumed);
  const int64_t first = seen % rows;
  return {seen / rows, first, std::min(global, rows - first)};
}

std::vector<uint32_t> epoch_order(uint64_t seed, int64_t epoch, int64_t rows) {
  std::vector<uint32_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), 0u);
  RandomStream random(mix_key(seed, kEpochStream, static_cast<uint64_t>(epoch)));
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

int64_t micro_batches_for(int64_t global, int ranks, int64_t per_device) {
  const int64_t most = (global + ranks - 1) / ranks;
  return (most + per_device - 1) / per_device;
}

}  // namespace trireme
