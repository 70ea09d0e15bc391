#pragma once
// Owns buckets, exchange between data ranks, clipping and the AdamW update (docs/design.md, decision 7).
//
// Gradients become ready layer by layer in backward. On the last micro-batch the exchange of a bucket starts as soon as
// all of its range is ready, on a progress thread, in chunks of at most 1 MiB. Every contribution, the owner's own
// included, is rounded to the wire type, added in f32 in rank order, and the sum rounded to the wire type again: the
// same bits on every rank, whatever the backend. A group of one exchanges nothing and rounds nothing.

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "model/parameter_table.h"
#include "ops/ops.h"
#include "optim/exchange.h"
#include "optim/training_state.h"

namespace trireme {

struct OptimizerOptions {
  AdamW adamw;                       ///< learning_rate, corrections and gradient_scale are set per update
  bool decay_all = false;            ///< weight_decay is for biases and norms too
  double clip = 1.0;                 ///< 0: off
  DType wire = DType::bf16;          ///< bf16 or f32
  size_t bucket_bytes = 25'000'000;  ///< of the wire type
  bool one_host = true;              ///< all ranks of the group are on this host
  std::vector<int> progress_cpus;    ///< the exchange thread runs on these; empty: where its creator does
};

class Optimizer final : public GradientSink {
 public:
  /// Borrows everything; `data_group` is used by this object's progress thread alone.
  Optimizer(const ParameterTable& table, TrainingState& state, Ops& ops, Communicator& data_group,
            const OptimizerOptions& options);
  ~Optimizer() override;

  /// Before the backward of the step's last micro-batch: from here on ready() starts exchanges.
  void begin_exchange();
  /// Ranges come in ascending order and cover [0, gradient_count).
  void ready(ParameterRange range) override;
  /// Waits for every bucket, adds the tied matrix' second sum, and returns the squared norm of the complete gradient
  /// (f64, per parameter in table order, fixed chunks). Throws Error::comm, Error::peer.
  double finish_exchange(Context& context);
  /// AdamW over all parameters; t = updates applied, this one included, from 1. norm = sqrt(finish_exchange()).
  void update(Context& context, double learning_rate, int64_t t, double norm);

  const ExchangeTimes& last_exchange() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace trireme
