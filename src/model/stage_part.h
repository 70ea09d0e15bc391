#pragma once
// A slice of the model's list {embedding, blocks, head} that runs several micro-batches at a time: each has a slot for
// its buffers between its forward and its backward. Forward is a loop over the slice, backward the same loop reversed;
// the only place that knows the order in which weights are used and gradients become ready.

#include <memory>
#include <optional>
#include <vector>

#include "model/batch_place.h"
#include "model/block.h"
#include "model/embedding.h"
#include "model/head.h"

namespace trireme {

/// The largest sums over tensor ranks of a stage.
TensorGroup::Sizes tensor_sizes(const Spec& spec, DType dtype, const ModelShape& shape, const Ops& ops);

/// Throws Error::config naming the kind of layers that the backend cannot compute.
void require_operators(const Spec& spec, const Ops& ops);

/// Bytes of a stage's memory.
struct StageBytes {
  size_t activations = 0;  ///< workspace and slots
  size_t scratch = 0;      ///< of its operators
  size_t tensor = 0;       ///< buffers of its sums over tensor ranks
};
StageBytes stage_bytes(const Spec& spec, DType dtype, const ModelShape& shape, const Ops& ops, int threads,
                       const Layout& layout = {});

/// Shared by the parts of one process, of which one computes at a time: workspace, scratch, threads, tensor ranks.
/// `layout`: everything that the parts hold between them.
class StageWorkspace {
 public:
  /// Borrows ops and tensor, which is nullptr where this rank has all of every layer.
  StageWorkspace(const Spec& spec, const Layout& layout, DType dtype, const ModelShape& shape, Ops& ops, int threads,
                 TensorGroup* tensor = nullptr);
  StageWorkspace(const StageWorkspace&) = delete;
  StageWorkspace& operator=(const StageWorkspace&) = delete;

  Context& context() { return context_; }
  Ops& ops() { return ops_; }
  TensorGroup* tensor() { return tensor_; }
  const WorkspaceMemory& memory() const { return memory_; }
  BatchFeed& feed() { return feed_; }
  /// Prepares the table of rotary positions for sequences of at most `longest` tokens.
  void turn_for(const Spec& spec, int64_t longest);

 private:
  Ops& ops_;
  TensorGroup* tensor_;
  BatchFeed feed_;
  Arena arena_, scratch_;
  Context context_;
  WorkspaceMemory memory_;
  int64_t turned_length_ = -1, turned_rows_ = 0;  ///< rotary_length() of the table, -1 at first; how many rows it has
};

class StagePart {
 public:
  /// Allocates shape.slots slots for micro-batches of at most shape.rows rows. Borrows everything except the shape;
  /// `weights` may be null if all weights are always present.
  StagePart(const Spec& spec, const Layout& layout, const ParameterViews& views, DType dtype, const ModelShape& shape,
            StageWorkspace& workspace, WeightSource* weights = nullptr);

  /// How one micro-batch is run; see Pass.
  struct Step {
    uint64_t seed = 0, step = 0;
    bool dropout = false;
  };
  /// The use of a backward's gradients.
  struct Gradients {
    float scale = 1;                 ///< part with head: of loss x scale
    View loss{};                     ///< [1] f64: a part with the head adds the loss to it
    Write write = Write::overwrite;  ///< overwrite for a step's first micro-batch, add for later ones
    /// If given, gets every gradient range of the part in ascending order as backward makes it: pass it on the last
    /// micro-batch that adds to them only.
    GradientSink* sink = nullptr;
  };

  // rows: this rank's of the batch's, where tensor ranks share the rows between layers.

  /// Brings a batch, which is on the host, to the device for the slot's next forward(), beside what is computed there:
  /// that of the slot's last batch must have been issued. Elsewhere than on the host the given one may change then.
  /// Throws as check_batch(). Returns a number for holds().
  uint64_t put(int64_t slot, const Batch& batch, bool dropout);
  /// Whether the slot's batch is that of the put() that returned `number`, for which no forward() has run.
  bool holds(int64_t slot, uint64_t number) const { return slots_[static_cast<size_t>(slot)].waiting == number; }
  /// Runs embedding and blocks on the batch of put(); the slot keeps the inputs of backward(), including the views of
  /// the batch. in: [rows, width], the output of the previous part; empty if this one has the embedding. out: [rows,
  /// width], the input of the next part; empty if this one has the head.
  void forward(int64_t slot, const Step& step, ConstView in, View out);
  /// Both.
  void forward(int64_t slot, const Batch& batch, const Step& step, ConstView in, View out) {
    put(slot, batch, step.dropout);
    forward(slot, step, in, out);
  }
  /// Gradients of the slot's micro-batch; needs a training shape. dy: [rows, width], gradient of forward()'s out; empty
  /// where this part has the head. dx: [rows, width], gradient of forward()'s in;
  /// empty where this part has the embedding. dx may be dy. The slot is free afterwards.
  void backward(int64_t slot, const Gradients& gradients, ConstView dy, View dx);

  /// A micro-batch in which this rank has no rows: its gradients are zeros, weights and sinks are used in the same
  /// order, because other ranks may share them.
  void forward_without_rows();
  void backward_without_rows(const Gradients& gradients);
  void loss_without_rows();  ///< for parts with the head

  // For parts with the head, after forward():
  void loss(int64_t slot, View loss);      ///< loss += Head::loss() of the slot's micro-batch
  void logits(int64_t slot, View logits);  ///< of every row, [rows, vocabulary_rows], or sequence, [sequences, classes]
  /// Generation: forward() against the cache, whose `past` is on the host; then next_logits() gives those of each
  /// sequence's last row, [sequences, vocabulary_rows] f32 (f64).
  void decode(int64_t slot, const Batch& batch, const KeyValueCache& cache, ConstView in, View out);
  void next_logits(int64_t slot, View logits);

  /// Where forward() reads its input from: a part before that writes there saves a copy. [rows, width]
  View input(int64_t slot, int64_t rows) const;
  /// Input of a block of the part in the last forward() of a training stage; one after the last: the head's. For tests
  /// and tools.
  ConstView activation(int64_t slot, int64_t block) const;
  const ModelPart& part() const { return part_; }
  int64_t slots() const { return static_cast<int64_t>(slots_.size()); }

 private:
  struct Slot {
    SlotMemory memory;
    BatchPlace place;
    Batch batch;
    int64_t longest;  ///< as the batch's, 0 excepted
    Step step;
    uint64_t waiting;  ///< number of the put() whose batch waits for its forward(); 0: none
  };
  Pass pass_of(const Slot& slot, View loss = {}, Write write = Write::overwrite) const;
  Rows rows_of(const Slot& slot) const;
  size_t group_of_block(size_t index) const;
  ConstView head_input(const Slot& slot) const;
  void run(const Slot& slot, const KeyValueCache* cache, ConstView in, View out);
  WeightRanges weights_of_block(size_t index) const;  ///< after the last one: of the head, or none
  /// In its order. Where nothing is below, it ends with the last trained one.
  std::vector<size_t> groups_of_backward() const;
  template <class Embed, class RunBlock>
  void for_each_layer(Embed embed, RunBlock run_block);
  template <class Run>
  void for_each_group_of_backward(GradientSink* sink, Run run);
  void backward_block(size_t index, const Slot& slot, const Pass& pass, const Workspace& work);

  const Spec& spec_;
  ModelPart part_;
  ParameterViews views_;
  [[maybe_unused]] bool training_;
  Recompute recompute_;
  StageWorkspace& workspace_;
  WeightSource always_there_;
  WeightSource& weights_;
  Arena arena_;
  std::vector<Slot> slots_;
  uint64_t puts_ = 0;
  std::vector<int32_t> last_rows_;  ///< of decode()'s sequences: after each one's last row
  std::optional<Embedding> embedding_;
  std::vector<Block> blocks_;
  std::unique_ptr<Head> head_;
};

}  // namespace trireme
