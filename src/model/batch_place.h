#pragma once
// Batches on the operators' device. Operators do not check the values of a batch: invalid ones are refused here,
// on the host, once.

#include "model/pass.h"
#include "model/spec.h"
#include "tensor/arena.h"

namespace trireme {

/// Throws Error::data naming the row of an id or position outside its table, Error::shape for offsets that fit no rows.
/// dropout: positions are counted on, too. batch: on the host.
void check_batch(const Spec& spec, const Batch& batch, bool dropout);

/// The rows of every sequence, if they are as many in each; else 0. offsets: [sequences + 1] i32, on the host.
int64_t equal_length(ConstView offsets);

/// One batch at a time: on the host the given one, elsewhere a copy, whose memory is made at once.
class BatchPlace {
 public:
  BatchPlace(Device& device, int64_t rows);
  /// The given batch, which is on the host and may change as soon as this returned where it is copied; a copy says
  /// whether its sequences are equally long.
  Batch put(const Batch& batch);
  /// [n] i32, n <= rows: the additional positions of a batch of generated tokens.
  ConstView put_counts(ConstView counts);

 private:
  ConstView copy(ConstView from, View to);

  Device& device_;
  Arena arena_;
  View tokens_, positions_, types_, targets_, values_, offsets_, samples_, first_samples_, first_positions_, counts_,
      counted_, counted_targets_;
};

}  // namespace trireme
