#pragma once
// Adds the gradients of a matrix that two pipeline stages hold because the head is tied to the embedding. Each stage
// has summed its own gradient over its data ranks.

#include <memory>

#include "comm/communicator.h"
#include "comm/stream_group.h"
#include "ops/ops.h"

namespace trireme {

class TiedSum {
 public:
  /// pair: first and last stage. Borrows both.
  TiedSum(Communicator& pair, Ops& ops);
  ~TiedSum();
  TiedSum(const TiedSum&) = delete;
  TiedSum& operator=(const TiedSum&) = delete;
  static size_t buffer_bytes();

  /// own += the other stage's sum: the same bits on both. own: [count] f32.
  void add_other(Context& context, View own);

 private:
  void add_on_device(Context& context, View own);

  Communicator& pair_;
  Ops& ops_;
  Arena arena_;
  View piece_;  ///< a part of the other stage's sum
  std::unique_ptr<StreamGroup>
      group_;  ///< where a library connects devices, in place of the pair; last: it uses the piece
};

}  // namespace trireme
