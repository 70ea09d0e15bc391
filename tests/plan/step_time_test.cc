#include "plan/step_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "plan/node_type.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

constexpr double kGib = 1 << 30;

/// The one efficiency that is fitted for the published tables below.
constexpr double kProductShare = 0.725;

MachineRates dgx_a100() {
  MachineRates rates = rates_of(node_type("dgx-a100"), 8);
  rates.product_share = kProductShare;
  return rates;
}

ModelSize gpt(int64_t layers, int64_t width, int64_t heads) {
  return {.layers = layers, .width = width, .heads = heads, .sequence = 2048, .vocabulary = 51200};
}

struct Errors {
  double sum = 0, worst = 0;
  int count = 0;
  void add(double planned, double measured) {
    const double error = std::abs(planned / measured - 1);
    sum += error;
    worst = std::max(worst, error);
    ++count;
  }
  double mean() const { return sum / count; }
};

// Narayanan et al. 2021 (arXiv 2104.04473), table 1: full recomputation; micro-batch and chunks are not published, so
// the best that fit count.
TEST(PlannedTime, IsWithinSixPerCentOfMegatronsTable) {
  struct Row {
    int64_t heads, width, layers, tensor, pipeline, data, batch;
    double seconds;
  };
  const std::array<Row, 10> rows{{{24, 2304, 24, 1, 1, 32, 512, 3.53},
                                  {32, 3072, 30, 2, 1, 32, 512, 3.70},
                                  {32, 4096, 36, 4, 1, 32, 512, 3.70},
                                  {48, 6144, 40, 8, 1, 32, 1024, 9.40},
                                  {64, 8192, 48, 8, 2, 32, 1536, 14.45},
                                  {80, 10240, 60, 8, 4, 32, 1792, 16.06},
                                  {96, 12288, 80, 8, 8, 24, 2304, 24.82},
                                  {128, 16384, 96, 8, 16, 15, 2160, 37.61},
                                  {128, 20480, 105, 8, 35, 9, 2520, 54.08},
                                  {160, 25600, 128, 8, 64, 6, 3072, 102.63}}};
  Errors errors;
  for (const Row& row : rows) {
    const ModelSize model = gpt(row.layers, row.width, row.heads);
    double best = INFINITY;
    for (const int64_t micro : {1, 2, 4, 8, 16}) {
      for (int64_t chunks = 1; chunks <= 10; ++chunks) {
        const int64_t micro_batches = row.batch / (row.data * micro);
        if (row.batch % (row.data * micro) != 0 || row.layers % (row.pipeline * chunks) != 0) continue;
        if (chunks > 1 && (row.pipeline == 1 || micro_batches % row.pipeline != 0)) continue;
        const StepLayout layout{row.data,  row.tensor, row.pipeline,       chunks,
                                row.batch, micro,      Recomputed::layers, false};
        const MegatronMemory memory = megatron_memory(model, layout, true);
        if (memory.state + memory.activations > 80e9) continue;
        best = std::min(best, step_time(model, layout, dgx_a100()).total());
      }
    }
    errors.add(best, row.seconds);
  }
  EXPECT_LE(errors.mean(), 0.06);
  EXPECT_LE(errors.worst, 0.15);
}

struct PaperModel {
  int64_t layers, width, heads, pipeline, batch, micro, chunks;
  double full, selective;                        ///< seconds of a step, table 5
  double state, activations, fewer_activations;  ///< GiB, figure 1
};
// Korthikanti et al. 2022 (arXiv 2205.05198).
constexpr std::array<PaperModel, 4> kPaper{
    {{48, 6144, 64, 1, 4, 4, 1, 1.42, 1.10, 45.5625, 59.25, 9.5625},
     {96, 12288, 96, 8, 64, 1, 3, 18.13, 13.75, 45.5625, 66.84375, 12.3515625},
     {105, 20480, 128, 35, 280, 1, 3, 49.05, 37.83, 31.640625, 114.0234375, 23.076171875},
     {128, 25600, 160, 64, 512, 1, 1, 94.42, 71.49, 32.958984375, 131.25, 26.5625}}};

StepLayout layout_of_paper(const PaperModel& row, Recomputed recomputed, bool sequence_parallel) {
  return {1, 8, row.pipeline, row.chunks, row.batch, row.micro, recomputed, sequence_parallel};
}

TEST(PlannedTime, IsWithinSixPerCentOfTheSequenceParallelPaper) {
  Errors errors;
  for (const PaperModel& row : kPaper) {
    const ModelSize model = gpt(row.layers, row.width, row.heads);
    errors.add(step_time(model, layout_of_paper(row, Recomputed::layers, false), dgx_a100()).total(), row.full);
    errors.add(step_time(model, layout_of_paper(row, Recomputed::attention, true), dgx_a100()).total(), row.selective);
  }
  EXPECT_LE(errors.mean(), 0.06);
  EXPECT_LE(errors.worst, 0.15);
}

TEST(MegatronMemory, IsWithinOnePerCentOfTheSequenceParallelPaper) {
  for (const PaperModel& row : kPaper) {
    const ModelSize model = gpt(row.layers, row.width, row.heads);
    const MegatronMemory all = megatron_memory(model, layout_of_paper(row, Recomputed::nothing, false), false);
    const MegatronMemory fewer = megatron_memory(model, layout_of_paper(row, Recomputed::attention, true), false);
    EXPECT_NEAR(all.state / kGib / row.state, 1, 0.01) << row.width;
    EXPECT_NEAR(all.activations / kGib / row.activations, 1, 0.01) << row.width;
    EXPECT_NEAR(fewer.activations / kGib / row.fewer_activations, 1, 0.01) << row.width;
  }
}

TEST(ModelSize, CountsTheParametersOfMegatronsTable) {
  EXPECT_NEAR(gpt(24, 2304, 24).parameters(), 1.7e9, 0.06e9);
  EXPECT_NEAR(gpt(80, 12288, 96).parameters(), 145.6e9, 0.1e9);
  EXPECT_NEAR(gpt(128, 25600, 160).parameters(), 1008e9, 1e9);
}

MachineRates only_products() {
  return {.peak_flops = 1e12, .memory_bytes = 1e30, .inner_bytes = 1e30, .node_bytes = 1e30};
}

TEST(PlannedTime, OfProductsAloneIsTheirOperations) {
  const ModelSize model = gpt(4, 256, 4);
  const StepLayout layout{.global_batch = 8, .micro_batch = 2};
  const PlannedTime time = step_time(model, layout, only_products());
  // 6 per weight of a matrix and token, and 12 x layers x width x sequence per token; biases have no products.
  const double tokens = 8 * 2048, matrices = 4 * 12.0 * 256 * 256 + 51200.0 * 256;
  EXPECT_NEAR(time.products, tokens * (6 * matrices + 12.0 * 4 * 256 * 2048) / 1e12, 1e-9);
  EXPECT_NEAR(time.total(), time.products, 1e-9);
  EXPECT_NEAR(model_flops(model, 8) / 1e12 / time.products, 1, 0.01);
}

TEST(PlannedTime, ABubbleIsTheStagesBeforeOverTheChunks) {
  ModelSize model = gpt(8, 256, 4);
  model.vocabulary = 1;
  const StepLayout flat{.pipeline = 4, .global_batch = 8, .micro_batch = 1};
  StepLayout interleaved = flat;
  interleaved.chunks = 2;
  const PlannedTime time = step_time(model, flat, only_products());
  EXPECT_NEAR(time.bubble / time.products, 3.0 / 8, 1e-3);
  EXPECT_NEAR(step_time(model, interleaved, only_products()).bubble / time.bubble, 0.5, 1e-9);
}

TEST(PlannedTime, TensorRanksOfSeveralNodesAreSlower) {
  const ModelSize model = gpt(30, 3072, 32);
  const MachineRates rates = rates_of(node_type("a100-80gb"), 8);
  const StepLayout inside{.data = 8, .tensor = 8, .global_batch = 512, .micro_batch = 8};
  const StepLayout across{.data = 4, .tensor = 16, .global_batch = 512, .micro_batch = 8};
  EXPECT_GT(step_time(model, across, rates).total(), 1.5 * step_time(model, inside, rates).total());
}

TEST(PlannedTime, RatesOfZeroAreRefused) {
  const ModelSize model = gpt(2, 256, 4);
  const StepLayout layout{.data = 2, .global_batch = 2};
  MachineRates rates = only_products();
  rates.node_bytes = 0;
  EXPECT_ERROR(step_time(model, layout, rates), ErrorKind::config,
               "the network bandwidth of a node is 0, expected a positive number; correct the node type");
  rates.peak_flops = 0;
  EXPECT_ERROR(step_time(model, layout, rates), ErrorKind::config, "the peak of matrix products is 0");
}

TEST(PlannedTime, AMeasuredProductReplacesThePeak) {
  ModelSize model = gpt(4, 256, 4);
  model.sequence = 1;
  model.vocabulary = 1;
  const StepLayout layout{.global_batch = 8, .micro_batch = 8};
  MachineRates rates = only_products();
  const double before = step_time(model, layout, rates).products;
  for (const GemmKind kind : {GemmKind::forward, GemmKind::input, GemmKind::weight})
    rates.products.push_back({kind, 256, 256, 5e11, DType::f32});
  EXPECT_NEAR(step_time(model, layout, rates).products / before, 2, 0.01) << "attention is small";
  rates.products.push_back({GemmKind::forward, 256, 1024, 1e30, DType::f32});
  EXPECT_LT(step_time(model, layout, rates).products / before, 1.9) << "the first matrix of the MLP is free";
}

TEST(PlannedTime, DataRanksOfANodeShareItsNetworkUnlessTheyAddFirst) {
  const ModelSize model = gpt(2, 256, 4);
  MachineRates rates{.peak_flops = 1e30, .memory_bytes = 1e30, .node_ranks = 4, .inner_bytes = 1e30, .node_bytes = 1e9};
  const StepLayout layout{.data = 8, .global_batch = 8};
  const double ring = step_time(model, layout, rates).exchange;
  rates.every_rank_sends = true;
  EXPECT_NEAR(step_time(model, layout, rates).exchange / ring, 4 * 4.0 / 7, 1e-9) << "4 of 7 parts leave the node";
}

TEST(PlannedTime, TheStageWithTheHeadHasFewerLayers) {
  ModelSize model = gpt(8, 256, 4);
  model.sequence = 64;
  MachineRates rates = only_products();
  const StepLayout whole{.global_batch = 4, .micro_batch = 1};
  const StepLayout cut{.pipeline = 2, .global_batch = 4, .micro_batch = 1};
  model.vocabulary = 1;
  const double layer = step_time(model, whole, rates).products / 8;
  model.vocabulary = 4 * 12 * 256;  // its head costs as much as four layers
  EXPECT_NEAR(step_time(model, cut, rates).products / layer, 4 + 4, 0.2) << "4 layers and the head";
  rates.balanced_stages = true;
  EXPECT_NEAR(step_time(model, cut, rates).products / layer, 6, 0.2) << "6 layers, or 2 and the head";
}

TEST(PlannedTime, WhatIsSharedIsSentMoreOften) {
  const ModelSize model = gpt(2, 256, 4);
  MachineRates rates{.peak_flops = 1e30, .memory_bytes = 1e12, .node_bytes = 1e9};
  rates.gradient_bytes = 4;
  StepLayout layout{.data = 4, .global_batch = 16, .micro_batch = 1};
  const PlannedTime none = step_time(model, layout, rates);
  const auto ratio = [&](ShardChoice shard) {
    layout.shard = shard;
    return step_time(model, layout, rates).exchange / none.exchange;
  };
  EXPECT_NEAR(ratio(ShardChoice::optimizer), (4 + 2) / 8.0, 1e-9);
  EXPECT_NEAR(ratio(ShardChoice::gradients), (4 * 4 + 2) / 8.0, 1e-9);
  EXPECT_NEAR(ratio(ShardChoice::parameters), (4 + 2 * 2) * 4 / 8.0, 1e-9);
  EXPECT_NEAR(step_time(model, layout, rates).update / none.update, 0.25, 1e-9);
}

TEST(PlannedTime, ComputingLosesWhatAnExchangeTakesFromItsCores) {
  const ModelSize model = gpt(4, 256, 4);
  MachineRates rates{.peak_flops = 1e10, .memory_bytes = 1e12, .node_bytes = 1e12};
  rates.exchange_overlaps = true;
  rates.bucket_bytes = 1e6;
  const StepLayout layout{.data = 2, .global_batch = 2, .micro_batch = 1};
  const double free = step_time(model, layout, rates).exchange;
  rates.node_work = 1e-9;
  const double sent = 2 * (model.layer_parameters() * 4 + 51200.0 * 256);
  EXPECT_NEAR(step_time(model, layout, rates).exchange - free, sent * 1e-9, 1e-3 * sent * 1e-9)
      << "a fast link hides everything but this";
  rates.node_bytes = 1e5;
  const double slow = step_time(model, layout, rates).exchange;
  rates.node_work = 0;
  EXPECT_DOUBLE_EQ(step_time(model, layout, rates).exchange, slow) << "a slow link is waited for anyway";
}

TEST(PlannedTime, WeightsTravelAfterTheUpdate) {
  const ModelSize model = gpt(4, 256, 4);
  MachineRates rates{.peak_flops = 1e8, .memory_bytes = 1e12, .node_bytes = 1e9};
  rates.exchange_overlaps = true;
  rates.bucket_bytes = 1e5;
  StepLayout layout{.data = 2, .global_batch = 2, .micro_batch = 1};
  const double none = step_time(model, layout, rates).exchange;
  layout.shard = ShardChoice::optimizer;
  const double weights = model.layer_parameters() * 4 + 51200.0 * 256;
  EXPECT_NEAR(step_time(model, layout, rates).exchange - none, weights / 1e9, 0.02 * weights / 1e9);
}

TEST(PlannedTime, OfSequencesOfOtherLengthsIsThatOfTheirRows) {
  MachineRates rates = only_products();
  rates.fused_attention = true;
  ModelSize model = gpt(4, 256, 4);
  model.sequence = 128;
  const double equal = step_time(model, {.global_batch = 6, .micro_batch = 6}, rates).products;
  model.sequence = 6 * 128;  // the same sequences, counted as rows
  model.attended = 128;
  const StepLayout layout{.global_batch = 1, .micro_batch = 1};
  EXPECT_NEAR(step_time(model, layout, rates).products / equal, 1, 1e-9);
  const double tokens = 6 * 128, matrices = 4 * 12.0 * 256 * 256, head = 51200.0 * 256;
  const double attention = 7 * 128.0 * 256 * 4;  // 2 products forward, 5 backward, of half of the pairs
  model.head_rows = 0.25;
  EXPECT_NEAR(step_time(model, layout, rates).products, tokens * (6 * (matrices + head / 4) + attention) / 1e12, 1e-9);
  model.head_rows = 0;
  model.full_mask = true;
  EXPECT_NEAR(step_time(model, layout, rates).products, tokens * (6 * matrices + 2 * attention) / 1e12, 1e-9);
  model.trained = 0.01;
  EXPECT_NEAR(step_time(model, layout, rates).products, tokens * (4.02 * matrices + 2 * attention) / 1e12, 1e-9);
}

TEST(TouchedShare, FollowsZipfsLaw) {
  EXPECT_NEAR(touched_share(1e9, 8192), 1, 1e-3);
  // 1 - exp(-1 / (rank x (ln 3 + 0.577))) of three rows, for one token each: about a third in sum.
  EXPECT_NEAR(touched_share(1, 3), 0.29, 0.02);
  double exact = 0;
  const double expected = 4096 / (std::log(8192.0) + 0.5772);
  for (int rank = 1; rank <= 8192; ++rank) exact += 1 - std::exp(-expected / rank);
  EXPECT_NEAR(touched_share(4096, 8192) / (exact / 8192), 1, 0.01);
}

TEST(LinkBytes, OfARingAndOfStages) {
  const ModelSize model = gpt(4, 256, 4);
  const StepLayout layout{.data = 2, .tensor = 2, .pipeline = 2, .global_batch = 4, .micro_batch = 1};
  const LinkBytes bytes = link_bytes(model, layout, MachineRates());
  const double message = 2.0 * 2048 * 256;
  EXPECT_EQ(bytes.tensor, message * 4 * 2 * 2);  // half of it twice; 4 sums in each of 2 layers of 2 micro-batches
  EXPECT_EQ(bytes.stages, 2 * message * 2);
  EXPECT_EQ(bytes.exchange, 2 * (model.layer_parameters() * 4 / 4 + 51200.0 * 256 / 2));
}

}  // namespace
}  // namespace trireme
