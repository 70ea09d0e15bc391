#include "optim/chunk_pipeline.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "optim/exchange_kernels.h"

namespace trireme {
namespace {

constexpr int64_t kBlock = 2048;  // elements summed at a time: 8 KiB of f32 stay in the L1 cache
// Sent and not yet there, per peer: what hides one message's round trip behind others.
constexpr int64_t kBytesOnTheirWay = 4 << 20;
constexpr int64_t kFewestSlots = 4, kMostSlots = 128;
// Of all slots together. Up to five ranks with chunks of 1 MiB stay below it.
constexpr size_t kMostBufferBytes = 64 << 20;
constexpr int64_t kChunkMultiple = 32;  // elements: rows of buffers begin on a 64-byte line even as bf16

int64_t slot_count(int64_t longest, DType wire, int ranks) {
  const int64_t chunk_bytes = std::max<int64_t>(1, longest * static_cast<int64_t>(size_of(wire)));
  return std::clamp(kBytesOnTheirWay / chunk_bytes / std::max(1, ranks - 1), kFewestSlots, kMostSlots);
}

/// Buffers of a slot, in chunks: Slot::own and reduced, and one or two for each rank beside the outgoing ones.
int64_t chunks_per_slot(int ranks, SumsAt sums) { return 2 + (sums == SumsAt::everyone ? 3 : 2) * int64_t{ranks}; }

constexpr int kContribution = 1, kSum = 2;  // tags

void to_wire(const float* x, View y, int64_t n) {
  if (y.dtype() == DType::bf16) return exchange_kernels::round(x, y.as<bf16_t>(), n);
  std::memcpy(y.data(), x, static_cast<size_t>(n) * sizeof(float));
}

void from_wire(ConstView x, float* y, int64_t n) {
  if (x.dtype() == DType::bf16) return exchange_kernels::widen(x.as<bf16_t>(), y, n);
  std::memcpy(y, x.data(), static_cast<size_t>(n) * sizeof(float));
}

void add_wire(ConstView x, float* y, int64_t n) {
  x.dtype() == DType::bf16 ? exchange_kernels::add(x.as<bf16_t>(), y, n) : exchange_kernels::add(x.as<float>(), y, n);
}

/// The first n elements of a row.
View part(View rows, int row, int64_t n) {
  const View whole = rows.rows_slice(row, 1);
  return {whole.data(), whole.dtype(), Shape{n}};
}

bool all_done(std::vector<Handle>& handles) {
  bool done = true;
  for (Handle& handle : handles) done = handle.test() && done;
  return done;
}

}  // namespace

ChunkPipeline::ChunkPipeline(std::span<float> array, Communicator& group, DType wire, SumsAt sums, int64_t longest)
    : array_(array),
      group_(group),
      sums_(sums),
      buffers_(bytes_for(group.size(), wire, sums, longest)),
      slots_(static_cast<size_t>(slot_count(longest, wire, group.size()))),
      most_summing_(std::max<size_t>(kFewestSlots, slots_.size() / 2)) {
  const auto ranks = static_cast<size_t>(group.size());
  for (Slot& slot : slots_) {
    take_buffers(slot, buffers_, group.size(), wire, sums, longest);
    for (auto* handles : slot.all_handles()) handles->resize(ranks);
    slot.awaited.resize(ranks);
  }
}

size_t ChunkPipeline::bytes_for(int ranks, DType wire, SumsAt sums, int64_t longest) {
  Arena measure;
  for (int64_t i = 0; i < slot_count(longest, wire, ranks); ++i) {
    Slot slot;
    take_buffers(slot, measure, ranks, wire, sums, longest);
  }
  return measure.peak();
}

int64_t ChunkPipeline::chunk_limit(int ranks, DType wire, SumsAt sums, size_t bytes) {
  const auto width = static_cast<int64_t>(size_of(wire));
  const int64_t wanted = std::max<int64_t>(1, static_cast<int64_t>(bytes) / width);
  const int64_t bound = static_cast<int64_t>(kMostBufferBytes) / (kFewestSlots * chunks_per_slot(ranks, sums) * width);
  return std::min(wanted, std::max(kChunkMultiple, bound / kChunkMultiple * kChunkMultiple));
}

void ChunkPipeline::take_buffers(Slot& slot, Arena& arena, int ranks, DType wire, SumsAt sums, int64_t longest) {
  const Shape row{longest}, rows{ranks, longest};
  slot.own = arena.take(wire, row);
  slot.reduced = arena.take(wire, row);
  slot.outgoing = arena.take(wire, rows);
  slot.contributions = arena.take(wire, rows);
  if (sums == SumsAt::everyone) slot.gathered = arena.take(wire, rows);
}

/// In an order that spreads the load: everyone begins with the next rank.
template <class Do>
void ChunkPipeline::for_peers(Do action) {
  const int size = group_.size(), rank = group_.rank();
  for (int i = 1; i < size; ++i) action((rank + i) % size);
}

void ChunkPipeline::send(Handle& handle, View x, int peer, int tag) {
  handle = group_.send(x, peer, tag);
  bytes_sent_ += x.bytes();
}

void ChunkPipeline::start(const StripeChunk& chunk) {
  assert(!full());
  Slot& slot = slots_[started_++ % slots_.size()];
  slot.chunk = chunk;
  slot.phase = Slot::Phase::summing;
  const int64_t own = chunk.length(group_.rank());
  for_peers([&](int peer) {
    const auto p = static_cast<size_t>(peer);
    const int64_t n = chunk.length(peer);
    if (own > 0) slot.arrivals[p] = group_.receive(part(slot.contributions, peer, own), peer, kContribution);
    slot.awaited[p] = n > 0 && sums_ == SumsAt::everyone;
    // Posted before anyone can send it, so that it never waits in a buffer of MPI's.
    if (slot.awaited[p]) slot.sum_arrivals[p] = group_.receive(part(slot.gathered, peer, n), peer, kSum);
  });
  for_peers([&](int peer) {
    const int64_t n = chunk.length(peer);
    if (n == 0) return;
    const View out = part(slot.outgoing, peer, n);
    to_wire(array_.data() + chunk.begin(peer), out, n);
    send(slot.sends[static_cast<size_t>(peer)], out, peer, kContribution);
  });
}

bool ChunkPipeline::advance() {
  bool moved = false;
  bool in_order = true;  // sums leave in the order in which their receives were posted
  for (size_t i = ended_; i < started_; ++i) {
    Slot& slot = slots_[i % slots_.size()];
    if (slot.phase == Slot::Phase::summing && in_order && all_done(slot.arrivals)) {
      sum(slot);
      moved = true;
    }
    in_order = in_order && slot.phase != Slot::Phase::summing;
    if (slot.phase == Slot::Phase::gathering) moved = gather(slot) || moved;
  }
  for (; ended_ < started_ && slots_[ended_ % slots_.size()].phase == Slot::Phase::idle; ++ended_) moved = true;
  return moved;
}

/// Every contribution is here: adds them in rank order and, where everyone is to have the sum, sends it.
void ChunkPipeline::sum(Slot& slot) {
  slot.phase = Slot::Phase::gathering;
  ++summed_;
  const int64_t n = slot.chunk.length(group_.rank());
  if (n == 0) return;
  float* own = array_.data() + slot.chunk.begin(group_.rank());
  const View reduced = part(slot.reduced.reshape({1, slot.reduced.count()}), 0, n);
  to_wire(own, slot.own, n);
  alignas(64) float block[kBlock];
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t length = std::min(kBlock, n - first);
    for (int r = 0; r < group_.size(); ++r) {
      const View all = r == group_.rank() ? slot.own : part(slot.contributions, r, n);
      const View x = all.rows_slice(first, length);
      r == 0 ? from_wire(x, block, length) : add_wire(x, block, length);
    }
    to_wire(block, reduced.rows_slice(first, length), length);
  }
  from_wire(reduced, own, n);
  if (sums_ == SumsAt::owners) return;
  for_peers([&](int peer) { send(slot.sum_sends[static_cast<size_t>(peer)], reduced, peer, kSum); });
}

/// Takes over the sums that have arrived. Idle once everything has, and everything sent has left. True: something did.
bool ChunkPipeline::gather(Slot& slot) {
  bool moved = false, complete = true;
  for_peers([&](int peer) {
    const auto p = static_cast<size_t>(peer);
    if (!slot.awaited[p]) return;
    if (!slot.sum_arrivals[p].test()) {
      complete = false;
      return;
    }
    const int64_t n = slot.chunk.length(peer);
    from_wire(part(slot.gathered, peer, n), array_.data() + slot.chunk.begin(peer), n);
    slot.awaited[p] = false;
    moved = true;
  });
  if (complete && all_done(slot.sends) && all_done(slot.sum_sends)) slot.phase = Slot::Phase::idle;
  return moved;
}

void ChunkPipeline::abandon() {
  for (Slot& slot : slots_) {
    for (auto* handles : slot.all_handles()) {
      for (Handle& handle : *handles) handle.abandon();
    }
  }
}

}  // namespace trireme
