#include "optim/shared_weights.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/error.h"
#include "exchange/message_group.h"

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

namespace {

// A layer waits for its weights: polling is worth more than the core.
constexpr ProgressThread::Pace kPace{.patience = std::chrono::microseconds(200),
                                     .awaited = std::chrono::microseconds(200)};

}  // namespace

SharedWeights::SharedWeights(const TrainingState& state, Communicator& ranks, Ownership ownership, Ops& ops,
                             std::vector<int> cpus)
    : state_(state),
      ownership_(std::move(ownership)),
      device_(ops.device()),
      group_(make_stream_group(ranks, ops, {.cpus = std::move(cpus), .pace = kPace})),
      gatherer_(*group_, ownership_) {}

void SharedWeights::need(ParameterRange range, ParameterRange next) {
  ++look_up(range).readers;
  if (!next.empty()) look_up(next);
  group_->wait(find(range)->arrival, "the weights of the next layer", 0);
}

void SharedWeights::done(ParameterRange range) {
  const auto layer = find(range);
  assert(layer != layers_.end() && layer->readers > 0);
  if (--layer->readers > 0) return;
  layers_.erase(layer);
  const auto release_all = [this, range](DeviceStream&) {
    state_.for_passing_weights(range.begin, range.end, [&](int64_t first, int64_t count) {
      release(state_.weights().rows_slice(first, count));
    });
  };
  released_ = group_->run(release_all, device_.stream().record());  // after the layer that read them
}

SharedWeights::Layer& SharedWeights::look_up(ParameterRange range) {
  const auto found = find(range);
  if (found != layers_.end()) return *found;
  // After the owners' updates.
  const Event arrival = gatherer_.gather(state_.weights(), range, both(device_.stream().record(), released_));
  return layers_.emplace_back(Layer{range, 0, arrival});
}

}  // namespace trireme
