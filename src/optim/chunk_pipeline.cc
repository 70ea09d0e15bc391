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

int64_t slot_count(int64_t chunk_bytes, int peers) {
  return std::clamp(kBytesOnTheirWay / std::max<int64_t>(1, chunk_bytes) / std::max(1, peers), kFewestSlots,
                    kMostSlots);
}

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

ChunkPipeline::ChunkPipeline(std::span<float> array, Communicator& group, DType wire, int64_t longest)
    : array_(array),
      group_(group),
      slots_(static_cast<size_t>(slot_count(longest * static_cast<int64_t>(size_of(wire)), group.size() - 1))),
      most_summing_(std::max<size_t>(kFewestSlots, slots_.size() / 2)) {
  Arena measure;
  take_buffers(measure, wire, longest);
  buffers_ = Arena(measure.peak());
  take_buffers(buffers_, wire, longest);
}

void ChunkPipeline::take_buffers(Arena& arena, DType wire, int64_t longest) {
  const Shape row{longest}, rows{group_.size(), longest};
  const auto peers = static_cast<size_t>(group_.size());
  for (Slot& slot : slots_) {
    slot.own = arena.take(wire, row);
    slot.reduced = arena.take(wire, row);
    for (View* view : {&slot.outgoing, &slot.contributions, &slot.gathered}) *view = arena.take(wire, rows);
    for (auto* handles : slot.all_handles()) handles->resize(peers);
    slot.awaited.resize(peers);
  }
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

void ChunkPipeline::start(const ExchangeChunk& chunk) {
  assert(!full());
  Slot& slot = slots_[started_++ % slots_.size()];
  slot.chunk = chunk;
  slot.phase = Slot::Phase::summing;
  const int64_t own = chunk.length(group_.rank());
  for_peers([&](int peer) {
    const auto p = static_cast<size_t>(peer);
    const int64_t n = chunk.length(peer);
    if (own > 0) slot.arrivals[p] = group_.receive(part(slot.contributions, peer, own), peer, kContribution);
    // Posted before anyone can send it, so that it never waits in a buffer of MPI's.
    if (n > 0) slot.sum_arrivals[p] = group_.receive(part(slot.gathered, peer, n), peer, kSum);
    slot.awaited[p] = n > 0;
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

/// Every contribution is here: adds them in rank order and sends the sum to everyone.
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
