#include "exchange/chunk_pipeline.h"

#include <algorithm>
#include <atomic>
#include <cassert>

#include "base/log.h"

namespace trireme {
namespace {

// In flight per peer: enough to hide one message's round trip behind others.
constexpr int64_t kBytesOnTheirWay = 4 << 20;
constexpr int64_t kFewestSlots = 4, kMostSlots = 128;
// For all slots together. Up to 64 ranks that share memory, in chunks of 256 KiB, stay below it.
constexpr size_t kMostBufferBytes = 64 << 20;
constexpr int64_t kChunkMultiple = 32;  // elements: rows of buffers begin on a 64-byte line even as bf16

int64_t slot_count(int64_t longest, DType wire, int ranks) {
  const int64_t chunk_bytes = std::max<int64_t>(1, longest * static_cast<int64_t>(size_of(wire)));
  return std::clamp(kBytesOnTheirWay / chunk_bytes / std::max(1, ranks - 1), kFewestSlots, kMostSlots);
}

using Route = ChunkPipeline::Route;

/// Buffers of a slot, in chunks: Slot::reduced, and for each rank one for contributions and one for sums. In shared
/// memory one for each rank; this rank's one is for the sum.
int64_t chunks_per_slot(const Route& route) {
  const int64_t ranks = route.ranks;
  switch (route.exchange) {
    case Exchange::reduce:
      return route.one_host ? ranks : 1 + 2 * ranks;
    case Exchange::reduce_and_share:
      return route.one_host ? ranks : 1 + 3 * ranks;
    default:
      return route.one_host ? 1 : 1 + ranks;
  }
}

bool reduces(const Route& route) { return route.exchange != Exchange::share; }
bool shares(const Route& route) { return route.exchange != Exchange::reduce; }

/// Bytes of a row of the shared buffers.
size_t row_bytes(DType wire, int64_t longest) {
  constexpr size_t kLine = 64;
  return (static_cast<size_t>(longest) * size_of(wire) + kLine - 1) / kLine * kLine;
}

size_t shared_bytes(const Route& route, int64_t longest) {
  return static_cast<size_t>(slot_count(longest, route.wire, route.ranks) * chunks_per_slot(route)) *
         row_bytes(route.wire, longest);
}

constexpr int kContribution = 1, kSum = 2;  // tags

View empty_message() { return {nullptr, DType::u8, Shape{0}}; }

/// The first n elements.
View part(View x, int64_t n) { return x.rows_slice(0, n); }

/// Stops at the first that is not done: one test makes progress on everything, and each costs time.
bool all_done(std::vector<Handle>& handles) {
  return std::ranges::all_of(handles, [](Handle& handle) { return handle.test(); });
}

}  // namespace

int64_t longest_of(Pieces pieces) {
  int64_t longest = 0;
  for (const ElementRange& piece : pieces) longest = std::max(longest, piece.count());
  return longest;
}

int64_t Chunk::begin(int owner) const {
  const ElementRange& piece = pieces[static_cast<size_t>(owner)];
  return std::min(piece.begin + first, piece.end);
}

int64_t Chunk::length(int owner) const {
  return std::min(pieces[static_cast<size_t>(owner)].end - begin(owner), limit);
}

ChunkPipeline::ChunkPipeline(Communicator& group, Ops& ops, Context& context, const Route& route, int64_t longest)
    : group_(group),
      ops_(ops),
      context_(context),
      route_(route),
      shared_(route.one_host && ops.device().is_host() ? SharedRegion::make(group, shared_bytes(route, longest))
                                                       : std::nullopt),
      slots_(static_cast<size_t>(slot_count(longest, route.wire, group.size()))),
      most_summing_(std::max<size_t>(kFewestSlots, slots_.size() / 2)) {
  assert(route.ranks == group.size());
  const auto ranks = static_cast<size_t>(group.size());
  for (Slot& slot : slots_) {
    for (auto* handles : slot.all_handles()) handles->resize(ranks);
    for (auto* views : slot.all_views()) views->resize(ranks);
    slot.awaited.resize(ranks);
  }
  if (shared_) {
    share_buffers(longest);
    return;
  }
  if (route_.one_host && ops.device().is_host() && group.rank() == 0) {
    log::info(
        "the ranks of this host cannot map each other's memory (containers that hide processes?): gradients travel as "
        "messages, which is slower");
  }
  route_.one_host = false;
  buffers_ = Arena(bytes_for(route_, longest), ops.device());
  for (Slot& slot : slots_) take_buffers(slot, buffers_, route_, longest);
}

size_t ChunkPipeline::bytes_for(const Route& route, int64_t longest) {
  if (route.one_host) return shared_bytes(route, longest);
  Arena measure;
  for (int64_t i = 0; i < slot_count(longest, route.wire, route.ranks); ++i) {
    Slot slot;
    for (auto* views : slot.all_views()) views->resize(static_cast<size_t>(route.ranks));
    take_buffers(slot, measure, route, longest);
  }
  return measure.peak();
}

int64_t ChunkPipeline::chunk_limit(const Route& route, size_t bytes) {
  const auto width = static_cast<int64_t>(size_of(route.wire));
  const int64_t wanted = std::max<int64_t>(1, static_cast<int64_t>(bytes) / width);
  const int64_t bound = static_cast<int64_t>(kMostBufferBytes) / (kFewestSlots * chunks_per_slot(route) * width);
  return std::min(wanted, std::max(kChunkMultiple, bound / kChunkMultiple * kChunkMultiple));
}

void ChunkPipeline::take_buffers(Slot& slot, Arena& arena, const Route& route, int64_t longest) {
  const Shape row{longest};
  slot.reduced = arena.take(route.wire, row);
  const auto take = [&](std::vector<View>& views) {
    for (View& view : views) view = arena.take(route.wire, row);
  };
  if (reduces(route)) take(slot.outgoing);
  if (reduces(route)) take(slot.contributions);
  if (shares(route)) take(slot.gathered);
}

/// Per slot a row for each rank with its contribution; this rank's row has the sum. If the sums exist already, this row
/// only.
void ChunkPipeline::share_buffers(int64_t longest) {
  const int own = group_.rank(), ranks = group_.size();
  const size_t bytes = row_bytes(route_.wire, longest);
  const bool contributes = reduces(route_);
  for (size_t s = 0; s < slots_.size(); ++s) {
    const auto row = [&](int writer, int reader) {
      const size_t at = contributes ? s * static_cast<size_t>(ranks) + static_cast<size_t>(reader) : s;
      return View(shared_->of(writer).data() + at * bytes, route_.wire, Shape{longest});
    };
    Slot& slot = slots_[s];
    slot.reduced = row(own, own);
    for_peers([&](int peer) {
      const auto p = static_cast<size_t>(peer);
      slot.gathered[p] = row(peer, peer);
      if (!contributes) return;
      slot.outgoing[p] = row(own, peer);
      slot.contributions[p] = row(peer, own);
    });
  }
}

/// In an order that spreads the load: every rank begins with the next one.
template <class Do>
void ChunkPipeline::for_peers(Do action) {
  const int size = group_.size(), rank = group_.rank();
  for (int i = 1; i < size; ++i) action((rank + i) % size);
}

View ChunkPipeline::payload(View x) const { return shared_ ? empty_message() : x; }

void ChunkPipeline::send(Handle& handle, View x, int peer, int tag) {
  std::atomic_thread_fence(std::memory_order_release);
  handle = group_.send(payload(x), peer, tag);
  bytes_sent_ += x.bytes();
}

void ChunkPipeline::start(const Chunk& chunk) {
  assert(!full());
  Slot& slot = slots_[started_++ % slots_.size()];
  slot.chunk = chunk;
  slot.phase = Slot::Phase::summing;
  const int64_t own = chunk.length(group_.rank());
  // Without contributions an empty message announces that the slot of the sum may be overwritten.
  const bool contributes = reduces(route_);
  const auto contribution = [&](View x, int64_t n) { return contributes ? payload(part(x, n)) : empty_message(); };
  for_peers([&](int peer) {
    const auto p = static_cast<size_t>(peer);
    const int64_t n = chunk.length(peer);
    if (own > 0) slot.arrivals[p] = group_.receive(contribution(slot.contributions[p], own), peer, kContribution);
    slot.awaited[p] = n > 0 && (shared_ || shares(route_));
    // Posted before any rank can send, so that a message never waits in MPI's buffers.
    if (slot.awaited[p]) slot.sum_arrivals[p] = group_.receive(payload(part(slot.gathered[p], n)), peer, kSum);
  });
  const auto out = [&](int peer) { return part(slot.outgoing[static_cast<size_t>(peer)], chunk.length(peer)); };
  const auto send_to = [&](int peer) {
    if (chunk.length(peer) == 0) return;
    send(slot.sends[static_cast<size_t>(peer)], contributes ? out(peer) : empty_message(), peer, kContribution);
  };
  const bool at_once = ops_.device().is_host();  // rounded values are available at once
  for_peers([&](int peer) {
    const int64_t n = chunk.length(peer);
    if (n > 0 && contributes) ops_.wire_cast(context_, chunk.array.rows_slice(chunk.begin(peer), n), out(peer));
    if (at_once) send_to(peer);
  });
  if (at_once) return;
  context_.stream->finish();
  for_peers(send_to);
}

bool ChunkPipeline::advance() {
  bool moved = false;
  bool in_order = true;  // sends sums in the order in which their receives were posted
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

/// All contributions have arrived: adds them in rank order and, if every rank gets the sum, sends it.
void ChunkPipeline::sum(Slot& slot) {
  slot.phase = Slot::Phase::gathering;
  ++summed_;
  const int64_t n = slot.chunk.length(group_.rank());
  if (n == 0) return;
  std::atomic_thread_fence(std::memory_order_acquire);
  const View sum = part(slot.reduced, n), own = slot.chunk.array.rows_slice(slot.chunk.begin(group_.rank()), n);
  if (reduces(route_)) {
    terms_.assign(slot.contributions.size(), {});  // this rank's entry stays empty
    for_peers(
        [&](int peer) { terms_[static_cast<size_t>(peer)] = part(slot.contributions[static_cast<size_t>(peer)], n); });
    ops_.sum_contributions(context_, terms_, own, sum);
  } else {
    ops_.wire_cast(context_, own, sum);
  }
  context_.stream->finish();
  if (!shared_ && !shares(route_)) return;
  const View told = shares(route_) ? sum : empty_message();  // a row of shared memory may be overwritten
  for_peers([&](int peer) { send(slot.sum_sends[static_cast<size_t>(peer)], told, peer, kSum); });
}

/// Stores the sums that have arrived. Idle once all have arrived and all sends are done. True: progress.
bool ChunkPipeline::gather(Slot& slot) {
  bool moved = false, complete = true;
  for_peers([&](int peer) {
    const auto p = static_cast<size_t>(peer);
    if (!slot.awaited[p]) return;
    if (!slot.sum_arrivals[p].test()) {
      complete = false;
      return;
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (shares(route_)) {
      const int64_t n = slot.chunk.length(peer);
      ops_.wire_cast(context_, part(slot.gathered[p], n), slot.chunk.array.rows_slice(slot.chunk.begin(peer), n));
    }
    slot.awaited[p] = false;
    moved = true;
  });
  if (moved) context_.stream->finish();
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
