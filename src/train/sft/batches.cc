#include "train/sft/batches.h"

#include <algorithm>
#include <numeric>

namespace trireme {

void ChatPacker::add(std::span<const int32_t> codes, int64_t sample) {
  for (size_t i = 0; i < codes.size(); ++i) {
    const bool counts = i + 1 < codes.size() && chat::is_counted(codes[i + 1]);
    if (counts) {
      counted_.push_back(static_cast<int32_t>(tokens_.size()));
      counted_targets_.push_back(chat::id_of(codes[i + 1]));
    }
    tokens_.push_back(chat::id_of(codes[i]));
    targets_.push_back(counts ? chat::id_of(codes[i + 1]) : -1);
    positions_.push_back(static_cast<int32_t>(i));
  }
  types_.resize(tokens_.size(), 0);
  samples_.resize(tokens_.size(), sample);
  offsets_.push_back(static_cast<int32_t>(tokens_.size()));
}

const Batch& ChatPacker::pack(const chat::TrainingRows& from, std::span<const uint32_t> rows, int64_t first_sample,
                              int64_t longest) {
  for (auto* array : {&tokens_, &targets_, &positions_, &types_, &counted_, &counted_targets_}) array->clear();
  samples_.clear();
  offsets_.assign(1, 0);
  for (const uint32_t row : rows) {
    for (const size_t one : from.rows[row]) add(from.kept(one), first_sample + static_cast<int64_t>(one));
  }
  const auto view = [](auto& values) {
    return ConstView(View(std::span(values), {static_cast<int64_t>(values.size())}));
  };
  batch_ = {};
  batch_.longest = longest;
  batch_.tokens = view(tokens_);
  batch_.targets = view(targets_);
  batch_.positions = view(positions_);
  batch_.types = view(types_);
  batch_.samples = view(samples_);
  batch_.offsets = view(offsets_);
  batch_.counted = view(counted_);
  batch_.counted_targets = view(counted_targets_);
  return batch_;
}

ChatBatches::ChatBatches(const chat::TrainingRows& rows, const BatchShape& shape, std::optional<uint64_t> seed)
    : rows_(rows), shape_(shape), seed_(seed), plan_{static_cast<int64_t>(rows.size()), shape.global} {
  keep(1);
}

std::span<const uint32_t> ChatBatches::rows_of(int64_t epoch, uint64_t first, int64_t count) const {
  if (!seed_ && order_.empty()) {
    order_.resize(rows_.size());
    std::iota(order_.begin(), order_.end(), 0U);
  } else if (seed_ && epoch != epoch_) {
    order_ = epoch_order(*seed_, epoch, plan_.rows);
    epoch_ = epoch;
  }
  return std::span(order_).subspan(first, static_cast<size_t>(count));
}

std::span<const uint32_t> ChatBatches::micro_batch(uint64_t consumed, int64_t index) const {
  const EpochPlan::Step step = plan_.at(consumed);
  BatchShape shape = shape_;
  shape.global = step.count;
  const BatchSlice slice = batch_slice(static_cast<uint64_t>(step.first), shape, index);
  return rows_of(step.epoch, slice.first, slice.count);
}

double ChatBatches::counted_in(std::span<const uint32_t> rows) const {
  int64_t counted = 0;
  for (const uint32_t row : rows) counted += rows_.counted[row];
  return static_cast<double>(counted);
}

double ChatBatches::counted(uint64_t consumed) {
  double counted = 0;
  for (int64_t m = 0; m < shape_.micro_batches; ++m) counted += counted_in(micro_batch(consumed, m));
  return counted;
}

std::optional<double> ChatBatches::counted_globally(uint64_t consumed) const { return counted_in(step_rows(consumed)); }

std::span<const uint32_t> ChatBatches::step_rows(uint64_t consumed) const {
  const EpochPlan::Step step = plan_.at(consumed);
  return rows_of(step.epoch, static_cast<uint64_t>(step.first), step.count);
}

const Batch& ChatBatches::fill(uint64_t consumed, int64_t index) {
  // Every conversation of every epoch has another number, so that no two of them drop the same.
  const int64_t first = plan_.at(consumed).epoch * static_cast<int64_t>(rows_.conversations.size());
  int64_t longest = 0;
  for (const uint32_t row : step_rows(consumed)) {
    for (const size_t one : rows_.rows[row]) longest = std::max(longest, std::ssize(rows_.kept(one)));
  }
  return packers_[next_++ % packers_.size()].pack(rows_, micro_batch(consumed, index), first, longest);
}

int64_t ChatBatches::rows(uint64_t consumed, int64_t index) const {
  int64_t rows = 0;
  for (const uint32_t row : micro_batch(consumed, index)) rows += rows_.lengths[row];
  return rows;
}

}  // namespace trireme
