#pragma once
// Sends what each rank owns of a flat array to all ranks: weights that their owners updated, in the array's type.

#include <functional>

#include "comm/communicator.h"
#include "optim/ownership.h"

namespace trireme {

class Gatherer {
 public:
  /// Borrows both; the calling thread of gather() is the group's issuing thread. check: called while it waits; an
  /// exception from it ends gather().
  Gatherer(Communicator& group, const Ownership& ownership, std::function<void()> check = {});
  /// Collective. Sends every rank's owned elements of `flat` to all ranks, without copies; `flat` has any type and the
  /// elements that the ownership divides. Throws Error::comm, Error::peer.
  void gather(View flat) { gather(flat, {0, flat.count()}); }
  /// The same for a range of it.
  void gather(View flat, ParameterRange range);
  uint64_t bytes_sent() const { return bytes_sent_; }  ///< since construction

 private:
  Communicator& group_;
  const Ownership& ownership_;
  std::function<void()> check_;
  uint64_t bytes_sent_ = 0;
};

}  // namespace trireme
