#include "text/training/piece_counter.h"

#include <algorithm>

#include "base/hash.h"
#include "text/regex/cut_plan.h"

namespace trireme {
namespace {

constexpr size_t kFirstSlots = size_t{1} << 16;

}  // namespace

PieceCounter::PieceCounter() : slots_(kFirstSlots) {}

void PieceCounter::add_text(std::string_view text) {
  const Cutter& cutter = *gpt2_cutter();
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const char* const stop = cutter.next(p, end).end;
    add_piece({p, static_cast<size_t>(stop - p)}, 1);
    p = stop;
  }
}

void PieceCounter::add_piece(std::string_view piece, uint64_t count) {
  total_ += count;
  const uint64_t hash = xxh3(std::as_bytes(std::span(piece.data(), piece.size())));
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  for (; slots_[at].count != 0; at = (at + 1) & mask) {
    Slot& slot = slots_[at];
    if (slot.hash == hash && std::string_view(pool_).substr(slot.offset, slot.bytes) == piece) {
      slot.count += count;
      return;
    }
  }
  slots_[at] = {hash, count, pool_.size(), piece.size()};
  pool_ += piece;
  if (++used_ * 2 > slots_.size()) grow();
}

void PieceCounter::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.count == 0) continue;
    size_t at = slot.hash & mask;
    while (slots_[at].count != 0) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

void PieceCounter::merge(const PieceCounter& other) {
  for (const Slot& slot : other.slots_) {
    if (slot.count != 0) add_piece(std::string_view(other.pool_).substr(slot.offset, slot.bytes), slot.count);
  }
}

std::vector<PieceCounter::Entry> PieceCounter::sorted() const {
  std::vector<Entry> entries;
  entries.reserve(used_);
  for (const Slot& slot : slots_) {
    if (slot.count != 0) entries.push_back({std::string_view(pool_).substr(slot.offset, slot.bytes), slot.count});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.piece < b.piece; });
  return entries;
}

}  // namespace trireme
