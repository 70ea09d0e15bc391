#include "model/batch_place.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "ops/check.h"

namespace trireme {
namespace {

/// Of every array of a batch in memory.
constexpr size_t kAlignment = 64;
constexpr size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

constexpr ConstView Batch::*kArrays[] = {&Batch::tokens,  &Batch::positions,      &Batch::types,
                                         &Batch::targets, &Batch::values,         &Batch::offsets,
                                         &Batch::samples, &Batch::first_samples,  &Batch::first_positions,
                                         &Batch::counted, &Batch::counted_targets};

/// For many small batches, or four of any size: while one is staged, two are on their way.
size_t pinned_bytes(size_t batch) {
  constexpr size_t kEnough = size_t{16} << 20;
  return aligned(std::max(4 * batch, std::min(32 * batch, kEnough)));
}

}  // namespace

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

int64_t equal_length(ConstView offsets) {
  if (offsets.rows() < 2) return 0;
  const int32_t* ends = offsets.as<int32_t>();
  const int32_t length = ends[1] - ends[0];
  for (int64_t i = 1; i + 1 < offsets.rows(); ++i)
    if (ends[i + 1] - ends[i] != length) return 0;
  return length;
}

BatchFeed::BatchFeed(Device& device, int64_t rows)
    : device_(device),
      stream_(device.is_host() ? nullptr : device.make_stream()),
      memory_(device.is_host() ? 0 : pinned_bytes(batch_bytes(rows)), device) {}

size_t BatchFeed::batch_bytes(int64_t rows) {
  // At most nine arrays of 4 and two of 8 bytes per row, and one more offset.
  return static_cast<size_t>(rows) * (9 * 4 + 2 * 8 + 4) + std::size(kArrays) * kAlignment;
}

std::byte* BatchFeed::stage(size_t bytes) {
  const size_t size = memory_.bytes();
  bytes = aligned(bytes);
  if (next_ % size + bytes > size) next_ += size - next_ % size;  // not across the end
  for (; next_ + bytes > freed_ + size; sent_.pop_front()) {
    sent_.front().there.wait();
    freed_ = sent_.front().end;
  }
  staged_ = next_;
  next_ += bytes;
  return memory_.data() + staged_ % size;
}

void BatchFeed::bring(View to, const Event& free) {
  stream_->wait(free);
  stream_->copy_later(View(memory_.data() + staged_ % memory_.bytes(), to.dtype(), to.shape()), to);
  const Event there = stream_->record();
  sent_.push_back({next_, there});
  device_.stream().wait(there);
}

BatchPlace::BatchPlace(Device& device, BatchFeed& feed, int64_t rows) : device_(device), feed_(feed) {
  if (device.is_host()) return;
  batch_bytes_ = BatchFeed::batch_bytes(rows);
  const size_t bytes = aligned(batch_bytes_ + static_cast<size_t>(rows) * sizeof(int32_t));
  arena_ = Arena(rooms_.size() * bytes, device);
  for (Room& room : rooms_) room.bytes = arena_.take(DType::u8, {static_cast<int64_t>(bytes)});
}

Batch BatchPlace::put(const Batch& batch) {
  if (device_.is_host()) return batch;
  rooms_[now_].used = device_.stream().record();
  now_ = 1 - now_;
  const Room& room = rooms_[now_];
  size_t bytes = 0;
  for (const ConstView Batch::*array : kArrays) bytes += aligned((batch.*array).bytes());
  assert(bytes <= batch_bytes_);
  std::byte* const staged = feed_.stage(bytes);
  Batch there = batch;
  size_t place = 0;
  for (ConstView Batch::*array : kArrays) {
    const ConstView from = batch.*array;
    if (from.empty()) continue;
    std::memcpy(staged + place, from.data(), from.bytes());
    there.*array = View(static_cast<std::byte*>(room.bytes.data()) + place, from.dtype(), from.shape(), &device_);
    place += aligned(from.bytes());
  }
  feed_.bring(room.bytes.rows_slice(0, static_cast<int64_t>(bytes)), room.used);
  there.equal_length = equal_length(batch.offsets);
  return there;
}

ConstView BatchPlace::put_counts(ConstView counts) {
  if (device_.is_host()) return counts;
  const Room& room = rooms_[now_];
  std::memcpy(feed_.stage(counts.bytes()), counts.data(), counts.bytes());
  const View to = room.bytes.rows_slice(static_cast<int64_t>(batch_bytes_), static_cast<int64_t>(counts.bytes()));
  feed_.bring(to, room.used);
  return View(to.data(), counts.dtype(), counts.shape(), &device_);
}

}  // namespace trireme
