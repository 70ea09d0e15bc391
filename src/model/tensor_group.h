#pragma once
// The ranks that share each layer (mesh axis tensor), as layers see them: combines their partial results. A sum has one
// definition: contributions in the activation type, added in f32 in rank order, rounded once; every member gets the
// same bits. MPI's own reduction knows no bf16 and does not promise equal bits.
//
// Where its members share the rows between layers (mesh.sequence), each has nearly the same number: a layer's input is
// gathered from all, and every member gets its own rows of a sum, by the same definition and therefore with the same
// bits.
//
// Its calls go through a stream group (comm/stream_group.h), so that a sum can be on its way while the layer computes
// something else.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "comm/stream_group.h"
#include "model/parameter_table.h"
#include "ops/ops.h"
#include "tensor/arena.h"

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

  /// Collective over the axis. Borrows both. cpus: where messages are sent and received; empty: where its creator runs.
  TensorGroup(Communicator& axis, Ops& ops, const Sizes& sizes, std::vector<int> cpus = {});
  ~TensorGroup();
  TensorGroup(const TensorGroup&) = delete;
  TensorGroup& operator=(const TensorGroup&) = delete;
  /// Memory of its buffers.
  static size_t bytes_for(int ranks, const Sizes& sizes);

  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }
  bool sequence_parallel() const { return sequence_parallel_; }
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
  View gathered(int64_t rows, int64_t width) const;
  View contribution(int64_t rows, int64_t width) const;
  /// Each = sum over members of theirs, in f32: gradients of parameters that all members hold and use for their own
  /// rows.
  void sum_gradients(Context& context, std::span<const View> gradients);
  /// x = sum over members of their x, in S.
  void sum_statistics(Context& context, View x);
  /// Statistics of complete rows from those of every member's columns (Ops::softmax_combine); all [rows] S, in place.
  void combine(Context& context, View max, View sum, View target);

  /// Payload handed to sends since construction.
  uint64_t bytes_sent() const { return group_->bytes_sent(); }

 private:
  struct Buffers {
    Buffers(Arena& arena, int ranks, const Sizes& sizes);
    View statistics;              ///< of all ranks
    View gathered, contribution;  ///< all rows, where ranks share them
    View gradients;               ///< packed
  };
  void begin(Event result, uint64_t bytes, const char* what);
  RowShare own_share(int64_t rows) const { return row_share(rows, rank(), size()); }
  /// Everyone's rows, as elements.
  std::vector<ElementRange> rows_of_all(View all) const;

  Ops& ops_;
  bool sequence_parallel_;
  Arena arena_;
  Buffers buffers_;
  std::vector<View> packed_;  ///< whose gradients are in buffers_.gradients, in order
  Event result_;              ///< of the call that has begun, as the next two
  uint64_t bytes_ = 0;
  const char* what_ = nullptr;
  std::unique_ptr<StreamGroup> group_;  ///< last: its thread uses the memory
};

// Gradients of parameters that every tensor rank holds completely and uses for its own rows (mesh.sequence): norms,
// biases of layers cut by columns, positions, types, projections. They are complete once they are summed over the
// tensor ranks, which is done once a step, when they are ready.

class SequenceParallelSums final : public GradientSink {
 public:
  /// Borrows everything. gradients: the table's flat array. next: notified after the sums of a range are made; may be
  /// null.
  SequenceParallelSums(const ParameterTable& table, View gradients, TensorGroup& tensor, Context& context,
                       GradientSink* next);
  void begin(ParameterRange range) override {
    if (next_) next_->begin(range);
  }
  /// Collective over the tensor ranks.
  void ready(ParameterRange range) override;

 private:
  TensorGroup& tensor_;
  Context& context_;
  GradientSink* next_;
  std::vector<std::vector<View>> sums_;  ///< by ready range
  std::vector<ParameterRange> ranges_;
};

}  // namespace trireme
