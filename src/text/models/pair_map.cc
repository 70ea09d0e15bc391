#include "text/models/pair_map.h"

#include <algorithm>
#include <bit>

namespace trireme {

PairMap::PairMap(size_t expected)
    : slots_(std::bit_ceil(std::max<size_t>(16, expected * 2)), TablePages::large),
      mask_(slots_.size() - 1),
      shift_(64 - std::countr_zero(slots_.size())) {}

bool PairMap::add(TokenId left, TokenId right, uint64_t value) {
  if ((count_ + 1) * 2 > slots_.size()) grow();
  const uint64_t key = key_of(left, right);
  size_t slot = home(key);
  for (; slots_[slot].key != kFree; slot = (slot + 1) & mask_) {
    if (slots_[slot].key == key) return false;
  }
  slots_[slot] = {key, value};
  ++count_;
  return true;
}

void PairMap::grow() {
  PairMap larger(slots_.size());
  for (const Slot& slot : slots_) {
    if (slot.key != kFree) larger.add(left_of(slot.key), right_of(slot.key), slot.value);
  }
  *this = std::move(larger);
}

}  // namespace trireme
