#pragma once
// Sends what each rank owns of a flat array to all ranks: weights that their owners updated, in the array's type.

#include "comm/stream_group.h"
#include "optim/ownership.h"

namespace trireme {

class Gatherer {
 public:
  /// Borrows both.
  Gatherer(StreamGroup& group, const Ownership& ownership);
  /// Sends every rank's owned elements of `flat` to all ranks, without copies, once `after` is reached; returns the
  /// event of the end. `flat` has any type and the elements that the ownership divides.
  Event gather(View flat, const Event& after) { return gather(flat, {0, flat.count()}, after); }
  /// The same for a range of it.
  Event gather(View flat, ParameterRange range, const Event& after);
  uint64_t bytes_sent() const { return group_.bytes_sent(); }  ///< of the group, since its construction

 private:
  StreamGroup& group_;
  const Ownership& ownership_;
};

}  // namespace trireme
