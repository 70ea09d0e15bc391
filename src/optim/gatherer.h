#pragma once
// Gives everyone what each rank owns of a flat array: weights whose owners updated them, in the array's own type.

#include <functional>

#include "comm/communicator.h"
#include "optim/ownership.h"

namespace trireme {

class Gatherer {
 public:
  /// Borrows both; the calling thread of gather() is the group's issuing thread. check: called while it waits; what it
  /// throws ends gather().
  Gatherer(Communicator& group, const Ownership& ownership, std::function<void()> check = {});
  /// Collective. Every rank's owned elements of `flat`, an array of any type over what the ownership divides, reach all
  /// ranks; nothing is copied on the way. Throws Error::comm, Error::peer.
  void gather(View flat) { gather(flat, {0, flat.count()}); }
  /// The same of a range of it.
  void gather(View flat, ParameterRange range);
  uint64_t bytes_sent() const { return bytes_sent_; }  ///< since construction

 private:
  Communicator& group_;
  const Ownership& ownership_;
  std::function<void()> check_;
  uint64_t bytes_sent_ = 0;
};

}  // namespace trireme
