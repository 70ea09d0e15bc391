#include "train/step_batches.h"

#include <algorithm>

namespace trireme {

double counted_rows(const Batch& batch) {
  const auto* targets = batch.targets.as<int32_t>();
  return static_cast<double>(std::count_if(targets, targets + batch.rows(), [](int32_t t) { return t >= 0; }));
}

double loss_terms(const Batch& batch) {
  return batch.sequence_loss != nullptr ? batch.sequence_loss->samples() : counted_rows(batch);
}

SampleBatches::SampleBatches(const SampleSource& data, const BatchShape& shape, SampleStream stream)
    : data_(data), shape_(shape), stream_(stream) {
  keep(1);
}

void SampleBatches::keep(int64_t batches) {
  batchers_.assign(static_cast<size_t>(batches), Batcher(shape_.largest_micro(), shape_.sequence));
}

BatchSlice SampleBatches::slice(uint64_t consumed, int64_t index) const { return batch_slice(consumed, shape_, index); }

double SampleBatches::counted(uint64_t consumed) {
  double tokens = 0;
  for (int64_t m = 0; m < shape_.micro_batches; ++m)
    tokens += data_.counts_all() ? static_cast<double>(slice(consumed, m).count * shape_.sequence)
                                 : counted_rows(fill(consumed, m));
  return tokens;
}

std::optional<double> SampleBatches::counted_globally(uint64_t) const {
  if (!data_.counts_all()) return std::nullopt;
  return static_cast<double>(shape_.global * shape_.sequence);
}

const Batch& SampleBatches::fill(uint64_t consumed, int64_t index) {
  return batchers_[next_++ % batchers_.size()].fill(data_, stream_, slice(consumed, index));
}

}  // namespace trireme
