#include "model/batch_place.h"

#include "ops/check.h"

namespace trireme {

void check_batch(const Spec& spec, const Batch& batch, bool dropout) {
  check_ids("embedding", "token", batch.tokens, spec.vocabulary_rows);
  const bool rotary = spec.position == Position::rotary;
  check_ids(rotary ? "rotary" : "embedding", "position", batch.positions, spec.context);
  if (spec.token_types > 0) check_ids("embedding_add", "id", batch.types, spec.token_types);
  check_offsets("attention", batch.offsets, batch.rows());
  if (!batch.counted.empty()) check_ids("scatter_rows", "row", batch.counted, batch.rows());
  if (!dropout) return;
  const Dropout positions{.rate = 0.5f, .key = 0, .sample = batch.samples, .position = batch.positions};
  check_positions("attention", positions, batch.offsets);
}

BatchPlace::BatchPlace(Device& device, int64_t rows) : device_(device) {
  if (device.is_host()) return;
  const auto take_all = [&](Arena& arena) {
    for (View* view : {&tokens_, &positions_, &types_, &targets_, &values_, &first_positions_, &counts_, &counted_,
                       &counted_targets_})
      *view = arena.take(DType::i32, {rows});
    for (View* view : {&samples_, &first_samples_}) *view = arena.take(DType::i64, {rows});
    offsets_ = arena.take(DType::i32, {rows + 1});
  };
  Arena measure;
  take_all(measure);
  arena_ = Arena(measure.peak(), device);
  take_all(arena_);
}

ConstView BatchPlace::copy(ConstView from, View to) {
  if (from.empty()) return {};
  const View own = View(to.data(), from.dtype(), from.shape(), to.device());
  device_.stream().copy(from, own);
  return own;
}

int64_t equal_length(ConstView offsets) {
  if (offsets.rows() < 2) return 0;
  const int32_t* ends = offsets.as<int32_t>();
  const int32_t length = ends[1] - ends[0];
  for (int64_t i = 1; i + 1 < offsets.rows(); ++i)
    if (ends[i + 1] - ends[i] != length) return 0;
  return length;
}

Batch BatchPlace::put(const Batch& batch) {
  if (device_.is_host()) return batch;
  return {.tokens = copy(batch.tokens, tokens_),
          .positions = copy(batch.positions, positions_),
          .types = copy(batch.types, types_),
          .targets = copy(batch.targets, targets_),
          .values = copy(batch.values, values_),
          .offsets = copy(batch.offsets, offsets_),
          .samples = copy(batch.samples, samples_),
          .first_samples = copy(batch.first_samples, first_samples_),
          .first_positions = copy(batch.first_positions, first_positions_),
          .counted = copy(batch.counted, counted_),
          .counted_targets = copy(batch.counted_targets, counted_targets_),
          .equal_length = equal_length(batch.offsets),
          .smoothing = batch.smoothing,
          .sequence_loss = batch.sequence_loss};
}

ConstView BatchPlace::put_counts(ConstView counts) { return device_.is_host() ? counts : copy(counts, counts_); }

}  // namespace trireme
