#pragma once
// The micro-batches of optimizer steps and the source of their samples.

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
  /// Of the step of the last call of counted().
  virtual int64_t micro_batches() const = 0;
  /// The number of tokens or sequences with a loss in all of them. Invalidates batches of fill().
  virtual double counted(uint64_t consumed) = 0;
  /// The same over all ranks, if it is known without communication.
  virtual std::optional<double> counted_globally(uint64_t consumed) const = 0;
  /// Has no rows if the global batch leaves none for this one. Valid until the next call, or for the number of calls
  /// given to keep().
  virtual const Batch& fill(uint64_t consumed, int64_t index) = 0;
  /// Rows of the batch that fill() would return; does not invalidate batches.
  virtual int64_t rows(uint64_t consumed, int64_t index) const = 0;
  /// Keeps `count` batches valid at a time.
  virtual void keep(int64_t batches) = 0;
};

/// Rows with a target in a batch of sequences.
double counted_rows(const Batch& batch);
/// What the batch's loss is a sum over: those rows, or the samples of its SequenceLoss.
double loss_terms(const Batch& batch);

/// Sequences of the same length.
class SampleBatches final : public StepBatches {
 public:
  /// Borrows the data.
  SampleBatches(const SampleSource& data, const BatchShape& shape, SampleStream stream = SampleStream::training);
  int64_t micro_batches() const override { return shape_.micro_batches; }
  double counted(uint64_t consumed) override;
  std::optional<double> counted_globally(uint64_t consumed) const override;
  const Batch& fill(uint64_t consumed, int64_t index) override;
  int64_t rows(uint64_t consumed, int64_t index) const override {
    return slice(consumed, index).count * shape_.sequence;
  }
  void keep(int64_t batches) override;

 private:
  BatchSlice slice(uint64_t consumed, int64_t index) const;

  const SampleSource& data_;
  BatchShape shape_;
  SampleStream stream_;
  std::vector<Batcher> batchers_;
  size_t next_ = 0;  ///< index in batchers_
};

}  // namespace trireme
