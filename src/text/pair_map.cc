#include "text/pair_map.h"

#include <algorithm>
#include <bit>

namespace trireme {

PairMap::PairMap(size_t expected) {
  const size_t slots = std::bit_ceil(std::max<size_t>(16, expected * 2));
  slots_.resize(slots);
  mask_ = slots - 1;
  shift_ = 64 - std::countr_zero(slots);
}

bool PairMap::add(TokenId left, TokenId right, uint64_t value) {
  if (find(left, right) != kNone) return false;
  if ((count_ + 1) * 2 > slots_.size()) grow();
  const uint64_t key = uint64_t{left} << 32 | right;
  size_t slot = home(key);
  while (slots_[slot].key != kNone) slot = (slot + 1) & mask_;
  slots_[slot] = {key, value};
  ++count_;
  return true;
}

void PairMap::grow() {
  PairMap larger(slots_.size());
  for (const Slot& slot : slots_) {
    if (slot.key != kNone) larger.add(static_cast<TokenId>(slot.key >> 32), static_cast<TokenId>(slot.key), slot.value);
  }
  *this = std::move(larger);
}

}  // namespace trireme
