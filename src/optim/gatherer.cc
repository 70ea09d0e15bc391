#include "optim/gatherer.h"

#include <algorithm>
#include <deque>

#include "base/error.h"
#include "comm/progress.h"

namespace trireme {
namespace {

constexpr size_t kStripesOnTheirWay = 4;  // hides one stripe's round trip behind others
constexpr int kTag = 3;
constexpr const char* kWhat = "the weights of their owners";

/// Operations of one stripe: ended in order, given up where an error ends the job.
struct StripeTransfer {
  std::vector<Handle> handles;

  void wait() {
    for (Handle& handle : handles) handle.wait(kWhat);
  }
};

}  // namespace

Gatherer::Gatherer(Communicator& group, const Ownership& ownership) : group_(group), ownership_(ownership) {
  require(group.size() == ownership.ranks(), ErrorKind::shape, "a gatherer got {} owners for a group of {} ranks",
          ownership.ranks(), group.size());
}

void Gatherer::gather(View flat) {
  const int size = group_.size(), rank = group_.rank();
  if (size == 1) return;
  const Waiting waiting(group_.progress(), kWhat, flat.bytes());
  const auto piece_of = [&](const Stripe& stripe, int owner) {
    const ParameterRange& piece = stripe.pieces[static_cast<size_t>(owner)];
    return flat.rows_slice(piece.begin, piece.end - piece.begin);
  };
  std::deque<StripeTransfer> transfers;
  for (const Stripe& stripe : ownership_.stripes()) {
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
    transfers.front().wait();
    transfers.pop_front();
  }
  for (StripeTransfer& transfer : transfers) transfer.wait();
}

}  // namespace trireme
