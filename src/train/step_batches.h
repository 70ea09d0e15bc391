#pragma once
// The micro-batches of optimizer steps, and where their samples come from.

#include <optional>

#include "data/sample_source.h"
#include "data/sampler.h"
#include "model/pass.h"
#include "train/batcher.h"

namespace trireme {

/// This rank's micro-batches of the step that begins at sample `consumed`.
class StepBatches {
 public:
  virtual ~StepBatches() = default;
  /// Of the step that counted() was asked about last.
  virtual int64_t micro_batches() const = 0;
  /// What the losses of all of them are a sum over: tokens or sequences. Ends what fill() gave.
  virtual double counted(uint64_t consumed) = 0;
  /// The same over all ranks, where it is known without asking them.
  virtual std::optional<double> counted_by_all(uint64_t consumed) const = 0;
  /// No rows where the global batch leaves this one none. Valid until the next call, or as many calls later as keep()
  /// said.
  virtual const Batch& fill(uint64_t consumed, int64_t index) = 0;
  /// Rows of the batch that fill() would give, which it does not end.
  virtual int64_t rows(uint64_t consumed, int64_t index) const = 0;
  /// As many batches are needed at a time.
  virtual void keep(int64_t batches) = 0;
};

/// Rows of a batch of sequences that have a target.
double counted_rows(const Batch& batch);

/// Sequences of one length.
class SampleBatches final : public StepBatches {
 public:
  /// Borrows the data.
  SampleBatches(const SampleSource& data, const BatchShape& shape);
  int64_t micro_batches() const override { return shape_.micro_batches; }
  double counted(uint64_t consumed) override;
  std::optional<double> counted_by_all(uint64_t consumed) const override;
  const Batch& fill(uint64_t consumed, int64_t index) override;
  int64_t rows(uint64_t consumed, int64_t index) const override {
    return slice(consumed, index).count * shape_.sequence;
  }
  void keep(int64_t batches) override;

 private:
  BatchSlice slice(uint64_t consumed, int64_t index) const;

  const SampleSource& data_;
  BatchShape shape_;
  std::vector<Batcher> batchers_;
  size_t next_ = 0;  ///< of batchers_
};

}  // namespace trireme
