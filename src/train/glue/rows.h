#pragma once
// Rows of ids and batches of them: packed, so that no padding is computed, or padded to one length.

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "data/glue/reader.h"
#include "model/pass.h"
#include "model/spec.h"
#include "text/tokenizer.h"
#include "train/step_batches.h"

namespace trireme {

struct EncodedRows {
  std::vector<int32_t> tokens, types;
  std::vector<size_t> offsets{0};  ///< index of the first id of each row
  std::vector<double> labels;
  int64_t longest = 0;

  int64_t rows() const { return static_cast<int64_t>(labels.size()); }
};
/// Applies the tokenizer's template to each text or pair; at most max_length ids.
EncodedRows encode_rows(std::span<const GlueRow> rows, bool pairs, const Tokenizer& tokenizer, size_t max_length);

/// The limits of a micro-batch.
struct BatchLimit {
  int64_t rows = 1;
  int64_t tokens = 0;  ///< 0: no limit; a row with more gets a micro-batch to itself
};
/// How many rows from the beginning of `which` fit in one micro-batch; at least 1.
int64_t rows_that_fit(const EncodedRows& rows, std::span<const uint32_t> which, const BatchLimit& limit);

/// How batches are laid out.
struct RowLayout {
  int64_t length = 0;    ///< every row is padded to it; 0: packed
  int32_t padding = 0;   ///< id
  int64_t classes = 0;   ///< 1: labels are values
  double smoothing = 0;  ///< share of each label that all classes split
};

/// Rows of a batch of `which`, padding included.
int64_t batch_rows(const EncodedRows& from, std::span<const uint32_t> which, const RowLayout& layout);

/// Builds one batch at a time. Padding comes after all rows, as separate sequences: as much is computed as with rows
/// padded to one length, and the result is ignored.
class RowPacker {
 public:
  explicit RowPacker(const RowLayout& layout) : layout_(layout) {}
  /// Valid until the next call. `first_sample`: global sample index of the first row. Labels of -1 are ignored.
  const Batch& pack(const EncodedRows& from, std::span<const uint32_t> rows, uint64_t first_sample);

 private:
  void add(std::span<const int32_t> tokens, std::span<const int32_t> types, int64_t sample, int32_t first_position);
  void set_views(int64_t rows);

  RowLayout layout_;
  std::vector<int32_t> tokens_, types_, positions_, targets_, offsets_, first_positions_;
  std::vector<int64_t> samples_, first_samples_;
  std::vector<float> values_;
  Batch batch_;
};

/// The batches of steps over epochs of shuffled rows.
class RowBatches final : public StepBatches {
 public:
  /// Borrows the rows. Without a token limit every step has the same number of micro-batches, cut evenly.
  RowBatches(const EncodedRows& rows, const EpochPlan& plan, const RowLayout& layout, const BatchLimit& limit,
             int ranks, int rank, uint64_t seed);
  StepPart part(uint64_t consumed) override;
  const Batch& fill(const StepPart& step, int64_t index, size_t slot) override;

 private:
  /// The numbers of the rows of a part of a step, in the order of its epoch.
  std::span<const uint32_t> rows_of(uint64_t consumed, const BatchSlice& slice);

  const EncodedRows& rows_;
  EpochPlan plan_;
  RowLayout layout_;
  std::deque<RowPacker> packers_;
  BatchLimit limit_;
  int ranks_, rank_;
  uint64_t seed_;
  int64_t epoch_ = -1;
  std::vector<uint32_t> order_;  ///< of the rows of epoch_
};

}  // namespace trireme
