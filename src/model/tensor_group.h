#pragma once
// The ranks that share each layer (mesh axis tensor), as layers see them: combines their partial results. A sum has one
// definition: contributions in the activation type, added in f32 in rank order, rounded once; every member gets the
// same bits. MPI's own reduction knows no bf16 and does not promise equal bits.
//
// Where its members share the rows between layers (mesh.sequence), each has nearly the same number: a layer's input is
// gathered from all, and every member gets its own rows of a sum, by the same definition and therefore with the same
// bits.
//
// Messages travel on a thread of this object, so that a sum can be on its way while the layer computes something else.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "ops/ops.h"

namespace trireme {

/// Rows [first, first + count) of some.
struct RowShare {
  int64_t first = 0, count = 0;
};

/// A member's rows: the counts differ by at most one. Empty for some members if there are fewer rows than members.
inline RowShare row_share(int64_t rows, int rank, int size) {
  const int64_t first = rows * rank / size;
  return {first, rows * (rank + 1) / size - first};
}

class TensorGroup {
 public:
  /// The largest call of each kind.
  struct Sizes {
    DType dtype = DType::f32;   ///< of activations
    int64_t elements = 0;       ///< of a sum
    int64_t rows = 0;           ///< of combine()
    int64_t statistics = 0;     ///< elements of sum_statistics()
    int64_t sequence_rows = 0;  ///< of gather() and scatter_sum(); 0: every member has all rows
    int64_t width = 0;          ///< of those rows
  };

  /// Borrows both; from now on `group` belongs to the thread. cpus: where that runs; empty: where its creator does.
  TensorGroup(Communicator& group, Ops& ops, const Sizes& sizes, std::vector<int> cpus = {});
  ~TensorGroup();
  TensorGroup(const TensorGroup&) = delete;
  TensorGroup& operator=(const TensorGroup&) = delete;
  /// Memory of its buffers.
  static size_t bytes_for(int ranks, const Sizes& sizes);

  int rank() const;
  int size() const;
  bool sequence_parallel() const;
  /// This member's share of the rows; all of them where they are not shared.
  RowShare share_of(int64_t rows) const;

  // One call at a time: until finish() no other may begin, and the call's arguments may not be used. finish() throws
  // Error::comm, Error::peer; then the job must end.

  /// x = sum over members of their x, of the activation type.
  void start_sum(Context& context, View x);
  /// all = every member's own rows, in order. own: the share of all's rows; may be touched at once.
  void start_gather(Context& context, ConstView own, View all);
  /// own = sum over members of these rows of their `all`.
  void start_scatter_sum(Context& context, View all, View own);
  void finish();
  void sum(Context& context, View x) {
    start_sum(context, x);
    finish();
  }
  void gather(Context& context, ConstView own, View all) {
    start_gather(context, own, all);
    finish();
  }
  void scatter_sum(Context& context, View all, View own) {
    start_scatter_sum(context, all, own);
    finish();
  }
  /// Memory of this object for start_gather()'s `all` and for start_scatter_sum()'s: [rows, width].
  View gathered(int64_t rows, int64_t width);
  View contribution(int64_t rows, int64_t width);
  /// Each = sum over members of theirs, in f32: gradients of parameters that all members hold and use for their own
  /// rows.
  void sum_gradients(Context& context, std::span<const View> gradients);
  /// x = sum over members of their x, in S.
  void sum_statistics(Context& context, View x);
  /// Statistics of complete rows from those of every member's columns (Ops::softmax_combine); all [rows] S, in place.
  void combine(Context& context, View max, View sum, View target);

  /// Payload handed to sends since construction.
  uint64_t bytes_sent() const;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace trireme
