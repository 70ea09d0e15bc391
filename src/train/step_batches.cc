#include "train/step_batches.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/rng.h"

namespace trireme {

double counted_rows(const Batch& batch) {
  const auto* targets = batch.targets.as<int32_t>();
  return static_cast<double>(std::count_if(targets, targets + batch.rows(), [](int32_t t) { return t >= 0; }));
}

double loss_terms(const Batch& batch) {
  return batch.sequence_loss != nullptr ? batch.sequence_loss->samples() : counted_rows(batch);
}

SampleBatches::SampleBatches(const SampleSource& data, const BatchShape& shape, SampleStream stream)
    : data_(data), shape_(shape), stream_(stream) {}

StepPart SampleBatches::part(uint64_t consumed) {
  StepPart step{.consumed = consumed, .samples = shape_.global, .slices = {}, .rows = {}, .counted = {}};
  for (int64_t m = 0; m < shape_.micro_batches; ++m) {
    step.slices.push_back(batch_slice(consumed, shape_, m));
    step.rows.push_back(step.slices.back().count * shape_.sequence);
  }
  if (data_.counts_all()) step.counted = static_cast<double>(shape_.global * shape_.sequence);
  return step;
}

const Batch& SampleBatches::fill(const StepPart& step, int64_t index, size_t slot) {
  return builder_of(batchers_, slot, shape_.largest_micro(), shape_.sequence)
      .fill(data_, stream_, step.slices[static_cast<size_t>(index)]);
}

Batcher::Batcher(int64_t sequences, int64_t sequence) : sequence_(sequence) {
  const auto rows = static_cast<size_t>(sequences * sequence);
  tokens_.resize(rows);
  targets_.resize(rows);
  positions_.resize(rows);
  types_.resize(rows);
  samples_.resize(rows);
  for (size_t i = 0; i < rows; ++i) positions_[i] = static_cast<int32_t>(static_cast<int64_t>(i) % sequence);
  for (int64_t s = 0; s <= sequences; ++s) offsets_.push_back(static_cast<int32_t>(s * sequence));
}

const Batch& Batcher::fill(const SampleSource& data, SampleStream stream, BatchSlice slice) {
  const int64_t rows = slice.count * sequence_;
  const auto n = static_cast<size_t>(rows);
  assert(n <= tokens_.size());
  const auto length = static_cast<size_t>(sequence_);
  for (size_t i = 0; i < static_cast<size_t>(slice.count); ++i)
    data.fill(stream, slice.first + i, std::span(tokens_).subspan(i * length, length),
              std::span(targets_).subspan(i * length, length));
  for (size_t i = 0; i < n; ++i) samples_[i] = static_cast<int64_t>(slice.first) + static_cast<int64_t>(i) / sequence_;
  batch_.tokens = View(std::span(tokens_).first(n), {rows});
  batch_.targets = View(std::span(targets_).first(n), {rows});
  batch_.positions = View(std::span(positions_).first(n), {rows});
  batch_.types = View(std::span(types_).first(n), {rows});
  batch_.samples = View(std::span(samples_).first(n), {rows});
  batch_.offsets = View(std::span(offsets_).first(static_cast<size_t>(slice.count) + 1), {slice.count + 1});
  return batch_;
}

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
