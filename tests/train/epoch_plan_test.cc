#include "train/step_batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "train/glue/rows.h"

namespace trireme {
namespace {

TEST(EpochPlan, GivesThePublishedStepsOfMrpc) {
  for (const auto& [ranks, steps] : {std::pair{1, 345}, {2, 174}, {4, 87}})
    EXPECT_EQ((EpochPlan{3668, 32 * ranks}.total_steps(3, -1)), steps);
  EXPECT_EQ((EpochPlan{3668, 32}.total_steps(3, 100)), 100);
  EXPECT_EQ((EpochPlan{10, 4}.total_steps(0.5, -1)), 2);  // 1.5 steps
}

TEST(EpochPlan, TakesEveryRowOfAnEpochOnceAndEndsItWithAShortStep) {
  const EpochPlan plan{10, 4};
  std::vector<int64_t> counts, epochs;
  for (uint64_t consumed = 0; counts.size() < 6; consumed += static_cast<uint64_t>(counts.back())) {
    counts.push_back(plan.at(consumed).count);
    epochs.push_back(plan.at(consumed).epoch);
  }
  EXPECT_EQ(counts, (std::vector<int64_t>{4, 4, 2, 4, 4, 2}));
  EXPECT_EQ(epochs, (std::vector<int64_t>{0, 0, 0, 1, 1, 1}));
}

TEST(EpochOrder, IsAShuffleBySeedAndEpoch) {
  const auto order = epoch_order(42, 0, 1000);
  EXPECT_EQ(std::set<uint32_t>(order.begin(), order.end()).size(), 1000u);
  EXPECT_FALSE(std::ranges::is_sorted(order));
  EXPECT_EQ(order, epoch_order(42, 0, 1000));
  EXPECT_NE(order, epoch_order(42, 1, 1000));
  EXPECT_NE(order, epoch_order(43, 0, 1000));
}

/// Rows of 1, 2, 3, ... ids; the ids of row r are r.
EncodedRows rows_of(int count) {
  EncodedRows rows;
  for (int r = 0; r < count; ++r) {
    rows.tokens.insert(rows.tokens.end(), static_cast<size_t>(r) + 1, r);
    rows.types.resize(rows.tokens.size(), 0);
    rows.offsets.push_back(rows.tokens.size());
    rows.labels.push_back(r % 2);
    rows.longest = r + 1;
  }
  return rows;
}

template <class T>
std::vector<T> values(ConstView view) {
  return {view.as<T>(), view.as<T>() + view.rows()};
}

TEST(RowBatches, ShareTheRowsOfAStepAmongAnyNumberOfRanks) {
  const EncodedRows rows = rows_of(10);
  const EpochPlan plan{10, 4};
  for (const uint64_t consumed : {0U, 4U, 8U, 10U}) {
    std::vector<int32_t> together, alone;
    double counted = 0;
    for (int rank = 0; rank < 4; ++rank) {
      RowBatches batches(rows, plan, {.length = 0, .padding = 0, .classes = 2}, {.rows = 1}, 4, rank, 7);
      const StepPart step = batches.part(consumed);
      for (int64_t m = 0; m < step.micro_batches(); ++m) {
        const Batch& batch = batches.fill(step, m, 0);
        EXPECT_EQ(batch.rows(), step.rows[static_cast<size_t>(m)]);
        counted += static_cast<double>(batch.sequences());
        const auto part = values<int32_t>(batch.tokens);
        together.insert(together.end(), part.begin(), part.end());
      }
    }
    RowBatches one(rows, plan, {.length = 0, .padding = 0, .classes = 2}, {.rows = 4}, 1, 0, 7);
    alone = values<int32_t>(one.fill(one.part(consumed), 0, 0).tokens);
    EXPECT_EQ(together, alone) << consumed;
    EXPECT_EQ(counted, one.part(consumed).counted);
  }
}

TEST(RowBatches, AreCutWhereTheTokensAreReached) {
  const EncodedRows rows = rows_of(10);
  const std::vector<uint32_t> which{0, 3, 1, 9, 2};  // of 1, 4, 2, 10 and 3 ids
  EXPECT_EQ(rows_that_fit(rows, which, {.rows = 2, .tokens = 0}), 2);
  EXPECT_EQ(rows_that_fit(rows, which, {.rows = 8, .tokens = 7}), 3);
  EXPECT_EQ(rows_that_fit(rows, which, {.rows = 8, .tokens = 6}), 2);
  EXPECT_EQ(rows_that_fit(rows, std::span(which).subspan(3), {.rows = 8, .tokens = 6}), 1) << "a long row stands alone";
  EXPECT_EQ(rows_that_fit(rows, which, {.rows = 8, .tokens = 100}), 5);

  const EpochPlan plan{10, 7};
  for (const uint64_t consumed : {0U, 7U, 10U}) {
    std::vector<int32_t> together;
    int64_t count = 0;
    for (int rank = 0; rank < 2; ++rank) {
      RowBatches batches(rows, plan, {.length = 0, .padding = 0, .classes = 2}, {.rows = 4, .tokens = 9}, 2, rank, 7);
      const StepPart step = batches.part(consumed);
      for (int64_t m = 0; m < step.micro_batches(); ++m, ++count) {
        const Batch& batch = batches.fill(step, m, 0);
        EXPECT_TRUE(batch.rows() <= 9 || batch.sequences() == 1) << batch.rows();
        const auto part = values<int32_t>(batch.tokens);
        together.insert(together.end(), part.begin(), part.end());
      }
    }
    RowBatches one(rows, plan, {.length = 0, .padding = 0, .classes = 2}, {.rows = 7}, 1, 0, 7);
    EXPECT_EQ(together, values<int32_t>(one.fill(one.part(consumed), 0, 0).tokens)) << consumed;
    EXPECT_GT(count, consumed == 0 ? 2 : 1) << "7 rows have more than 2 x 9 ids";
  }
}

TEST(RowPacker, PutsPaddingAfterAllRowsAsSequencesWithoutLabels) {
  const EncodedRows rows = rows_of(3);
  const std::vector<uint32_t> which{2, 0};
  RowPacker packed({.length = 0, .padding = 99, .classes = 2}), padded({.length = 3, .padding = 99, .classes = 2});
  EXPECT_EQ(values<int32_t>(packed.pack(rows, which, 5).tokens), (std::vector<int32_t>{2, 2, 2, 0}));
  const Batch& batch = padded.pack(rows, which, 5);
  EXPECT_EQ(values<int32_t>(batch.tokens), (std::vector<int32_t>{2, 2, 2, 0, 99, 99}));
  EXPECT_EQ(values<int32_t>(batch.offsets), (std::vector<int32_t>{0, 3, 4, 6}));
  EXPECT_EQ(values<int32_t>(batch.positions), (std::vector<int32_t>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(values<int32_t>(batch.targets), (std::vector<int32_t>{0, 0}));
  EXPECT_EQ(values<int64_t>(batch.samples), (std::vector<int64_t>{5, 5, 5, 6, 6, 6}));
}

}  // namespace
}  // namespace trireme
