#include "optim/gatherer.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {

Gatherer::Gatherer(StreamGroup& group, const Ownership& ownership) : group_(group), ownership_(ownership) {
  require(group.size() == ownership.ranks(), ErrorKind::shape,
          "a gatherer got an ownership of {} ranks, but its group has {}", ownership.ranks(), group.size());
}

Event Gatherer::gather(View flat, ParameterRange range, const Event& after) {
  if (group_.size() == 1) return after;
  Event last = after;
  for (const Stripe& stripe : ownership_.stripes()) {
    if (!stripe.meets(range)) continue;
    std::vector<ElementRange> pieces;
    for (const ParameterRange& piece : stripe.pieces)
      pieces.push_back(
          {std::clamp(piece.begin, range.begin, range.end), std::clamp(piece.end, range.begin, range.end)});
    last = group_.gather(flat, pieces, flat.dtype(), after);
  }
  return last;
}

}  // namespace trireme
