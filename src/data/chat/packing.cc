#include "data/chat/packing.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace trireme::chat {

Packing pack_best_fit(std::span<const size_t> lengths, size_t row) {
  std::vector<size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return lengths[a] > lengths[b]; });
  Packing packing;
  std::set<std::pair<size_t, size_t>> open;  // room, number of the row
  for (const size_t one : order) {
    const size_t length = std::min(lengths[one], row);
    packing.cut += lengths[one] > row ? 1 : 0;
    auto best = open.lower_bound({length, 0});
    std::pair<size_t, size_t> place = {row, packing.rows.size()};
    if (best == open.end()) {
      packing.rows.emplace_back();
    } else {
      place = *best;
      open.erase(best);
    }
    packing.rows[place.second].push_back(one);
    place.first -= length;
    if (place.first > 0) open.insert(place);
  }
  return packing;
}

}  // namespace trireme::chat
