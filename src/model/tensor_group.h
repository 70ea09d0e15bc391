#pragma once
// The ranks that share each layer (mesh axis tensor), as layers see them: what each has computed of a result comes
// together here. A sum has one definition: contributions in the activation type, added in f32 in rank order, rounded
// once; every member gets the same bits. MPI's own reduction knows no bf16 and does not promise equal bits.
//
// Messages travel on a thread of this object, so that a sum can be on its way while the layer computes something else.

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "ops/ops.h"

namespace trireme {

class TensorGroup {
 public:
  /// The largest call of each kind.
  struct Sizes {
    DType dtype = DType::f32;  ///< of activations
    int64_t elements = 0;      ///< of a sum
    int64_t rows = 0;          ///< of combine()
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

  /// x = sum over members of their x, of the activation type. Until finish_sum() nobody touches x, and no other call
  /// begins. Throws Error::comm, Error::peer from finish_sum(); then the job must end.
  void start_sum(Context& context, View x);
  void finish_sum();
  void sum(Context& context, View x) {
    start_sum(context, x);
    finish_sum();
  }
  /// Statistics of whole rows from those of every member's columns (Ops::softmax_combine); all [rows] S, in place.
  void combine(Context& context, View max, View sum, View target);

  /// Payload handed to sends since construction.
  uint64_t bytes_sent() const;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace trireme
