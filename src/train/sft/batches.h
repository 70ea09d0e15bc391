#pragma once
// The batches of steps over epochs of rows that conversations share.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/chat/training_rows.h"
#include "data/sampler.h"
#include "train/step_batches.h"

namespace trireme {

/// Builds one batch at a time. No padding is computed: positions begin at 0 in every conversation, and attention stays
/// within it.
class ChatPacker {
 public:
  /// Valid until the next call. first_sample: the number of conversation 0; numbers key the dropout. longest: of Batch.
  const Batch& pack(const chat::TrainingRows& from, std::span<const uint32_t> rows, int64_t first_sample,
                    int64_t longest = 0);

 private:
  void add(std::span<const int32_t> codes, int64_t sample);

  std::vector<int32_t> tokens_, targets_, positions_, types_, offsets_, counted_, counted_targets_;
  std::vector<int64_t> samples_;
  Batch batch_;
};

/// A sample is a row. An epoch takes every row once; its last step may be short, and a micro-batch without rows.
class ChatBatches final : public StepBatches {
 public:
  /// Borrows the rows. shape.global: rows per step; its sequence is not used. seed: shuffles the rows of every epoch;
  /// none: every epoch has them in their order.
  ChatBatches(const chat::TrainingRows& rows, const BatchShape& shape, std::optional<uint64_t> seed);

  int64_t micro_batches() const override { return shape_.micro_batches; }
  double counted(uint64_t consumed) override;
  std::optional<double> counted_globally(uint64_t consumed) const override;
  const Batch& fill(uint64_t consumed, int64_t index) override;
  int64_t rows(uint64_t consumed, int64_t index) const override;
  /// Rows of `rows` in a micro-batch.
  int64_t samples(uint64_t consumed, int64_t index) const { return std::ssize(micro_batch(consumed, index)); }
  void keep(int64_t batches) override { packers_.assign(static_cast<size_t>(batches), ChatPacker()); }

 private:
  /// The numbers of the rows [first, first + count) of an epoch's order.
  std::span<const uint32_t> rows_of(int64_t epoch, uint64_t first, int64_t count) const;
  std::span<const uint32_t> micro_batch(uint64_t consumed, int64_t index) const;
  double counted_in(std::span<const uint32_t> rows) const;
  /// Rows of every rank's micro-batches of the step.
  std::span<const uint32_t> step_rows(uint64_t consumed) const;

  const chat::TrainingRows& rows_;
  BatchShape shape_;
  std::optional<uint64_t> seed_;
  EpochPlan plan_;
  std::vector<ChatPacker> packers_;
  size_t next_ = 0;  ///< index in packers_
  mutable int64_t epoch_ = -1;
  mutable std::vector<uint32_t> order_;  ///< of the rows of epoch_
};

}  // namespace trireme
