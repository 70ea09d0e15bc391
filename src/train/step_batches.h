#pragma once
// The micro-batches of optimizer steps, the source of their samples, and which rows a step of fine-tuning takes.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/sample_source.h"
#include "data/sampler.h"
#include "model/pass.h"

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

/// Host arrays of one micro-batch of samples, as a model's Batch.
class Batcher {
 public:
  /// At most `sequences` samples of `sequence` tokens.
  Batcher(int64_t sequences, int64_t sequence);
  /// The slice's samples; valid until the next call. slice.count <= sequences; an empty slice gives a batch with 0
  /// rows.
  const Batch& fill(const SampleSource& data, SampleStream stream, BatchSlice slice);

 private:
  int64_t sequence_;
  std::vector<int32_t> tokens_, targets_, positions_, types_, offsets_;
  std::vector<int64_t> samples_;
  Batch batch_;
};

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

/// Which rows a fine-tuning step takes, as functions of the rows seen so far, so that any number of ranks can resume.
/// An epoch is every row once, in ceil(rows / global) steps; the last step may be short.
struct EpochPlan {
  int64_t rows = 0;
  int64_t global = 0;  ///< rows per step over all ranks

  int64_t steps_per_epoch() const { return (rows + global - 1) / global; }
  /// most_steps > 0 replaces the number of epochs.
  int64_t total_steps(double epochs, int64_t most_steps) const;

  struct Step {
    int64_t epoch = 0;
    int64_t first = 0, count = 0;  ///< positions in the epoch's order
  };
  Step at(uint64_t consumed) const;
};

/// The rows of an epoch in its order: a shuffle by (seed, epoch).
std::vector<uint32_t> epoch_order(uint64_t seed, int64_t epoch, int64_t rows);

/// Micro-batches that a rank needs for its part of `global` rows, with at most `per_device` rows each.
int64_t micro_batches_for(int64_t global, int ranks, int64_t per_device);

}  // namespace trireme
