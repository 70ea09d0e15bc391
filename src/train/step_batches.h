#pragma once
// The micro-batches of optimizer steps, the source of their samples, and which rows a step of fine-tuning takes.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "data/sample_source.h"
#include "data/sampler.h"
#include "model/pass.h"

namespace trireme {

/// A step as this rank takes part in it, known before any of its batches is built.
struct StepPart {
  uint64_t consumed = 0;           ///< samples before the step
  int64_t samples = 0;             ///< of all ranks
  std::vector<BatchSlice> slices;  ///< the samples of each of this rank's micro-batches; empty: none is left for it
  std::vector<int64_t> rows;       ///< of each micro-batch: its tokens, padding included
  /// What the loss is a mean over, in all ranks: tokens or samples; nullopt: only the batches know.
  std::optional<double> counted;
  int64_t longest = 0;  ///< Batch::longest of its batches

  int64_t micro_batches() const { return std::ssize(rows); }
};

/// Where the micro-batches of steps come from.
class StepBatches {
 public:
  virtual ~StepBatches() = default;
  /// The step that begins after `consumed` samples.
  virtual StepPart part(uint64_t consumed) = 0;
  /// A micro-batch of such a step, without rows if its slice is empty. Valid until the next call with this slot.
  virtual const Batch& fill(const StepPart& step, int64_t index, size_t slot = 0) = 0;
};

/// What builds the batches of a slot.
template <class Builder, class... Arguments>
Builder& builder_of(std::deque<Builder>& all, size_t slot, const Arguments&... arguments) {
  while (all.size() <= slot) all.emplace_back(arguments...);
  return all[slot];
}

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
  StepPart part(uint64_t consumed) override;
  const Batch& fill(const StepPart& step, int64_t index, size_t slot) override;

 private:
  const SampleSource& data_;
  BatchShape shape_;
  SampleStream stream_;
  std::deque<Batcher> batchers_;
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
