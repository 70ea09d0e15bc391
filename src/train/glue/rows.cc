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
  if (rows == 0) return;
  (layout_.classes == 1 ? batch_.values : batch_.targets) = layout_.classes == 1 ? view(values_) : view(targets_);
}

RowBatches::RowBatches(const EncodedRows& rows, const EpochPlan& plan, const RowLayout& layout, int64_t per_device,
                       int ranks, int rank, uint64_t seed)
    : rows_(rows),
      plan_(plan),
      packer_(layout),
      ranks_(ranks),
      rank_(rank),
      micro_batches_(micro_batches_for(plan.global, ranks, per_device)),
      seed_(seed) {}

double RowBatches::counted(uint64_t consumed) {
  double rows = 0;
  for (int64_t m = 0; m < micro_batches_; ++m)
    rows += static_cast<double>(batch_slice(0, plan_.at(consumed).count, ranks_, rank_, micro_batches_, m).count);
  return rows;
}

const Batch& RowBatches::fill(uint64_t consumed, int64_t index) {
  const EpochPlan::Step step = plan_.at(consumed);
  if (step.epoch != epoch_) {
    order_ = epoch_order(seed_, step.epoch, plan_.rows);
    epoch_ = step.epoch;
  }
  const BatchSlice slice = batch_slice(0, step.count, ranks_, rank_, micro_batches_, index);
  const auto rows =
      std::span(order_).subspan(static_cast<size_t>(step.first) + slice.first, static_cast<size_t>(slice.count));
  return packer_.pack(rows_, rows, consumed + slice.first);
}

}  // namespace trireme
