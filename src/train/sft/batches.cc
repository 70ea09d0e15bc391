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
    : rows_(rows), shape_(shape), seed_(seed), plan_{static_cast<int64_t>(rows.size()), shape.global} {}

std::span<const uint32_t> ChatBatches::rows_of(uint64_t consumed, const BatchSlice& slice) {
  const EpochPlan::Step step = plan_.at(consumed);
  if (!seed_ && order_.empty()) {
    order_.resize(rows_.size());
    std::iota(order_.begin(), order_.end(), 0U);
  } else if (seed_ && step.epoch != epoch_) {
    order_ = epoch_order(*seed_, step.epoch, plan_.rows);
    epoch_ = step.epoch;
  }
  const uint64_t first = static_cast<uint64_t>(step.first) + slice.first - consumed;
  return std::span(order_).subspan(first, static_cast<size_t>(slice.count));
}

StepPart ChatBatches::part(uint64_t consumed) {
  BatchShape shape = shape_;
  shape.global = plan_.at(consumed).count;
  StepPart step{.consumed = consumed, .samples = shape.global, .slices = {}, .rows = {}, .counted = {}};
  for (int64_t m = 0; m < shape.micro_batches; ++m) {
    step.slices.push_back(batch_slice(consumed, shape, m));
    int64_t ids = 0;
    for (const uint32_t row : rows_of(consumed, step.slices.back())) ids += rows_.lengths[row];
    step.rows.push_back(ids);
  }
  int64_t counted = 0;
  for (const uint32_t row : rows_of(consumed, {consumed, shape.global})) {
    counted += rows_.counted[row];
    for (const size_t one : rows_.rows[row]) step.longest = std::max(step.longest, std::ssize(rows_.kept(one)));
  }
  step.counted = static_cast<double>(counted);
  return step;
}

const Batch& ChatBatches::fill(const StepPart& step, int64_t index, size_t slot) {
  // Every conversation of every epoch has another number, so that no two of them drop the same.
  const int64_t first = plan_.at(step.consumed).epoch * static_cast<int64_t>(rows_.conversations.size());
  return builder_of(packers_, slot)
      .pack(rows_, rows_of(step.consumed, step.slices[static_cast<size_t>(index)]), first, step.longest);
}

}  // namespace trireme
