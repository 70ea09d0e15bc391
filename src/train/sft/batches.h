#pragma once
// The batches of steps over epochs of rows that conversations share.

#include <cstdint>
#include <deque>
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

  StepPart part(uint64_t consumed) override;
  const Batch& fill(const StepPart& step, int64_t index, size_t slot) override;

 private:
  /// The numbers of the rows of a part of a step, in the order of its epoch.
  std::span<const uint32_t> rows_of(uint64_t consumed, const BatchSlice& slice);

  const chat::TrainingRows& rows_;
  BatchShape shape_;
  std::optional<uint64_t> seed_;
  EpochPlan plan_;
  std::deque<ChatPacker> packers_;
  int64_t epoch_ = -1;
  std::vector<uint32_t> order_;  ///< of the rows of epoch_
};

}  // namespace trireme
