#pragma once
// A matrix that two pipeline stages hold, because the head is tied to the embedding: each has summed its own gradient
// of it over its data ranks.

#include "comm/communicator.h"
#include "ops/ops.h"

namespace trireme {

class TiedSum {
 public:
  /// pair: first and last stage. Borrows both.
  TiedSum(Communicator& pair, Ops& ops);
  static size_t buffer_bytes();

  /// own += the other stage's: the same bits on both. own: [count] f32.
  void add_other(Context& context, View own);

 private:
  Communicator& pair_;
  Ops& ops_;
  Arena arena_;
  View piece_;  ///< of the other stage's
};

}  // namespace trireme
