#include "optim/gatherer.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

constexpr size_t kStripesOnTheirWay = 4;  // hides one stripe's round trip behind others
constexpr int kTag = 3;
constexpr const char* kWhat = "the weights of their owners";

/// Operations of one stripe: finished in order, abandoned if an error ends the job.
struct StripeTransfer {
  std::vector<Handle> handles;

  void wait(const std::function<void()>& check) {
    for (Handle& handle : handles) handle.wait(kWhat, std::chrono::hours(24), check);
  }
};

}  // namespace

Gatherer::Gatherer(Communicator& group, const Ownership& ownership, std::function<void()> check)
    : group_(group), ownership_(ownership), check_(std::move(check)) {
  require(group.size() == ownership.ranks(), ErrorKind::shape,
          "a gatherer got an ownership of {} ranks, but its group has {}", ownership.ranks(), group.size());
}

void Gatherer::gather(View flat, ParameterRange range) {
  const int size = group_.size(), rank = group_.rank();
  if (size == 1) return;
  const auto piece_of = [&](const Stripe& stripe, int owner) {
    const ParameterRange& piece = stripe.pieces[static_cast<size_t>(owner)];
    const int64_t begin = std::clamp(piece.begin, range.begin, range.end);
    return flat.rows_slice(begin, std::clamp(piece.end, range.begin, range.end) - begin);
  };
  std::deque<StripeTransfer> transfers;
  for (const Stripe& stripe : ownership_.stripes()) {
    if (!stripe.meets(range)) continue;
    StripeTransfer transfer;
    for (int i = 1; i < size; ++i) {
      const int peer = (rank + i) % size;
      const View theirs = piece_of(stripe, peer);
      if (theirs.count() > 0) transfer.handles.push_back(group_.receive(theirs, peer, kTag));
    }
    const View own = piece_of(stripe, rank);
    for (int i = 1; i < size && own.count() > 0; ++i) {
      transfer.handles.push_back(group_.send(own, (rank + i) % size, kTag));
      bytes_sent_ += own.bytes();
    }
    transfers.push_back(std::move(transfer));
    if (transfers.size() < kStripesOnTheirWay) continue;
    transfers.front().wait(check_);
    transfers.pop_front();
  }
  for (StripeTransfer& transfer : transfers) transfer.wait(check_);
}

}  // namespace trireme
