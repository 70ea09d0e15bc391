#include "train/glue/rows.h"

#include <algorithm>

#include "data/sampler.h"

namespace trireme {

EncodedRows encode_rows(std::span<const GlueRow> rows, bool pairs, const Tokenizer& tokenizer, size_t max_length) {
  EncodedRows out;
  const EncodeOptions options{.special_tokens = true, .max_length = max_length, .padding = false};
  for (const GlueRow& row : rows) {
    const Encoding encoding =
        pairs ? tokenizer.encode_pair(row.first, row.second, options) : tokenizer.encode(row.first, options);
    for (const TokenId id : encoding.ids) out.tokens.push_back(static_cast<int32_t>(id));
    out.types.insert(out.types.end(), encoding.types.begin(), encoding.types.end());
    out.types.resize(out.tokens.size(), 0);
    out.longest = std::max(out.longest, static_cast<int64_t>(encoding.ids.size()));
    out.offsets.push_back(out.tokens.size());
    out.labels.push_back(row.label);
  }
  return out;
}

void RowPacker::add(std::span<const int32_t> tokens, std::span<const int32_t> types, int64_t sample,
                    int32_t first_position) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  types_.insert(types_.end(), types.begin(), types.end());
  samples_.resize(tokens_.size(), sample);
  for (size_t i = 0; i < tokens.size(); ++i) positions_.push_back(first_position + static_cast<int32_t>(i));
  offsets_.push_back(static_cast<int32_t>(tokens_.size()));
}

const Batch& RowPacker::pack(const EncodedRows& from, std::span<const uint32_t> rows, uint64_t first_sample) {
  for (auto* array : {&tokens_, &types_, &positions_, &targets_, &first_positions_}) array->clear();
  samples_.clear();
  first_samples_.clear();
  values_.clear();
  offsets_.assign(1, 0);
  const auto length_of = [&](uint32_t row) { return from.offsets[row + 1] - from.offsets[row]; };
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t begin = from.offsets[rows[i]], length = length_of(rows[i]);
    const auto sample = static_cast<int64_t>(first_sample + i);
    add(std::span(from.tokens).subspan(begin, length), std::span(from.types).subspan(begin, length), sample, 0);
    first_samples_.push_back(sample);
    first_positions_.push_back(0);
    targets_.push_back(static_cast<int32_t>(from.labels[rows[i]]));
    values_.push_back(static_cast<float>(from.labels[rows[i]]));
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto length = static_cast<int64_t>(length_of(rows[i]));
    if (length >= layout_.length) continue;
    const std::vector<int32_t> padding(static_cast<size_t>(layout_.length - length), layout_.padding),
        types(padding.size(), 0);
    add(padding, types, static_cast<int64_t>(first_sample + i), static_cast<int32_t>(length));
  }
  set_views(static_cast<int64_t>(rows.size()));
  return batch_;
}

void RowPacker::set_views(int64_t rows) {
  const auto view = [](auto& values) {
    return ConstView(View(std::span(values), {static_cast<int64_t>(values.size())}));
  };
  batch_ = {};
  batch_.tokens = view(tokens_);
  batch_.types = view(types_);
  batch_.positions = view(positions_);
  batch_.samples = view(samples_);
  batch_.offsets = view(offsets_);
  batch_.first_samples = view(first_samples_);
  batch_.first_positions = view(first_positions_);
  batch_.smoothing = layout_.smoothing;
  if (rows == 0) return;
  (layout_.classes == 1 ? batch_.values : batch_.targets) = layout_.classes == 1 ? view(values_) : view(targets_);
}

int64_t rows_that_fit(const EncodedRows& rows, std::span<const uint32_t> which, const BatchLimit& limit) {
  const auto most = std::min(static_cast<int64_t>(which.size()), limit.rows);
  if (limit.tokens == 0) return most;
  size_t tokens = 0;
  for (int64_t i = 0; i < most; ++i) {
    const uint32_t row = which[static_cast<size_t>(i)];
    tokens += rows.offsets[row + 1] - rows.offsets[row];
    if (i > 0 && tokens > static_cast<size_t>(limit.tokens)) return i;
  }
  return most;
}

int64_t batch_rows(const EncodedRows& from, std::span<const uint32_t> which, const RowLayout& layout) {
  int64_t rows = 0;
  for (const uint32_t row : which)
    rows += layout.length > 0 ? layout.length : static_cast<int64_t>(from.offsets[row + 1] - from.offsets[row]);
  return rows;
}

RowBatches::RowBatches(const EncodedRows& rows, const EpochPlan& plan, const RowLayout& layout, const BatchLimit& limit,
                       int ranks, int rank, uint64_t seed)
    : rows_(rows), plan_(plan), layout_(layout), limit_(limit), ranks_(ranks), rank_(rank), seed_(seed) {}

std::span<const uint32_t> RowBatches::rows_of(uint64_t consumed, const BatchSlice& slice) {
  const EpochPlan::Step step = plan_.at(consumed);
  if (step.epoch != epoch_) {
    order_ = epoch_order(seed_, step.epoch, plan_.rows);
    epoch_ = step.epoch;
  }
  const uint64_t first = static_cast<uint64_t>(step.first) + slice.first - consumed;
  return std::span(order_).subspan(first, static_cast<size_t>(slice.count));
}

StepPart RowBatches::part(uint64_t consumed) {
  BatchShape shape{.global = plan_.at(consumed).count, .ranks = ranks_, .rank = rank_};
  StepPart step{.consumed = consumed, .samples = shape.global, .slices = {}, .rows = {}, .counted = {}};
  step.counted = static_cast<double>(step.samples);
  const auto add = [&](const BatchSlice& slice) {
    step.slices.push_back(slice);
    step.rows.push_back(batch_rows(rows_, rows_of(consumed, slice), layout_));
  };
  if (limit_.tokens == 0) {
    shape.micro_batches = micro_batches_for(plan_.global, ranks_, limit_.rows);
    for (int64_t m = 0; m < shape.micro_batches; ++m) add(batch_slice(consumed, shape, m));
    return step;
  }
  BatchSlice rest = batch_slice(consumed, shape, 0);
  if (rest.count == 0) add(rest);  // one empty micro-batch, in which the rank exchanges zeros
  while (rest.count > 0) {
    const int64_t fit = rows_that_fit(rows_, rows_of(consumed, rest), limit_);
    add({rest.first, fit});
    rest = {rest.first + static_cast<uint64_t>(fit), rest.count - fit};
  }
  return step;
}

const Batch& RowBatches::fill(const StepPart& step, int64_t index, size_t slot) {
  const BatchSlice& slice = step.slices[static_cast<size_t>(index)];
  return builder_of(packers_, slot, layout_).pack(rows_, rows_of(step.consumed, slice), slice.first);
}

}  // namespace trireme
