#include "model/stage.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/presets.h"
#include "ops/backend.h"
#include "ops/profile.h"
#include "tests/model/model_fixture.h"
#include "tests/model/spec_cases.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

constexpr Stage::Step kStep{.seed = 3, .step = 5, .dropout = true};

class EveryChoice : public ::testing::TestWithParam<SpecCase> {};

INSTANTIATE_TEST_SUITE_P(Stage, EveryChoice, ::testing::ValuesIn(kSpecCases),
                         [](const auto& choice) { return std::string(choice.param.name); });

TEST_P(EveryChoice, BackwardEqualsFiniteDifferencesOfTheReference) {
  Spec spec = small_spec();
  GetParam().change(spec);
  TestModel<double> model(spec);
  TestBatch data(spec, {5, 1, 7}, 1);
  const auto ops = make_reference_ops();
  Stage stage(spec, model.views, DType::f64, {.rows = 16}, *ops, 1);
  const Batch batch = data.with_values(true);
  const float scale = 0.5f;
  (void)stage.loss_and_backward(batch, kStep, scale, Write::overwrite, nullptr);

  std::vector<double> kept = model.gradients;
  for (const Parameter& p : model.table.all()) {
    model.gradients = kept;
    const std::vector<double> gradient = model.gradient(p);
    const int64_t stride = std::max<int64_t>(1, p.count() / 7);
    for (int64_t i = 0; i < p.stored_shape.count(); i += stride) {
      double& w = model.weights[static_cast<size_t>(p.offset + i)];
      const double h = 1e-5, before = w;
      w = before + h;
      const double above = stage.loss_and_backward(batch, kStep, scale, Write::overwrite, nullptr);
      w = before - h;
      const double below = stage.loss_and_backward(batch, kStep, scale, Write::overwrite, nullptr);
      w = before;
      const double expected = static_cast<double>(scale) * (above - below) / (2 * h);
      EXPECT_NEAR(gradient[static_cast<size_t>(i)], expected, 1e-6 * std::max(1.0, std::abs(expected)))
          << p.name << "[" << i << "]";
    }
  }
}

// As transformers: by the longest sequence of what is computed together, not by the model's context.
TEST(Stage, RotaryFrequenciesFollowTheLongestSequence) {
  Spec spec = small_spec();
  spec.position = Position::rotary;
  spec.rotary_dims = 4;
  spec.rotary = {.kind = RotaryKind::longrope, .original_context = 4, .short_factors = {1, 2}, .long_factors = {3, 5}};
  const auto ops = make_reference_ops();
  const auto loss_of = [&](std::vector<float> short_factors, std::vector<int> lengths, int64_t longest) {
    Spec own = spec;
    if (!short_factors.empty()) own.rotary.short_factors = own.rotary.long_factors = std::move(short_factors);
    TestModel<double> model(own);
    TestBatch data(own, lengths, 1);
    Stage stage(own, model.views, DType::f64, {.rows = 16}, *ops, 1);
    Batch batch = data.with_values(true);
    batch.longest = longest;
    TestBatch before(own, {8}, 2);
    (void)stage.loss_and_backward(before.with_values(true), kStep, 1, Write::overwrite, nullptr);
    return stage.loss_and_backward(batch, kStep, 1, Write::overwrite, nullptr);
  };
  const std::vector<float> own, only_short{1, 2}, only_long{3, 5};
  EXPECT_EQ(loss_of(own, {4, 3}, 0), loss_of(only_short, {4, 3}, 0));
  EXPECT_EQ(loss_of(own, {5, 3}, 0), loss_of(only_long, {5, 3}, 0));
  EXPECT_EQ(loss_of(own, {4, 3}, 5), loss_of(only_long, {4, 3}, 0)) << "another rank has the longer one";
  EXPECT_NE(loss_of(only_short, {4, 3}, 0), loss_of(only_long, {4, 3}, 0));
}

TEST_P(EveryChoice, CpuEqualsTheReference) {
  Spec spec = small_spec();
  GetParam().change(spec);
  TestModel<double> exact(spec);
  TestModel<float> fast(spec);
  TestBatch data(spec, {5, 1, 7}, 1);
  const auto reference = make_reference_ops();
  const auto cpu = make_cpu_ops();
  Stage exact_stage(spec, exact.views, DType::f64, {.rows = 16}, *reference, 1);
  Stage fast_stage(spec, fast.views, DType::f32, {.rows = 16}, *cpu, 2);
  const double expected = exact_stage.loss_and_backward(data.with_values(true), kStep, 1, Write::overwrite, nullptr);
  const double loss = fast_stage.loss_and_backward(data.with_values(false), kStep, 1, Write::overwrite, nullptr);
  EXPECT_NEAR(loss, expected, 1e-4);
  for (const Parameter& p : exact.table.all()) {
    const auto a = exact.gradient(p), b = fast.gradient(p);
    for (size_t i = 0; i < a.size(); ++i)
      ASSERT_NEAR(b[i], a[i], 2e-4 * std::max(1.0, std::abs(a[i]))) << p.name << "[" << i << "]";
  }
}

TEST_P(EveryChoice, LaterMicroBatchesAddTheirOwnGradientsOnce) {
  Spec spec = small_spec();
  GetParam().change(spec);
  TestModel<float> model(spec);
  TestBatch first(spec, {6, 4}, 2), second(spec, {3, 7}, 3);
  const auto ops = make_cpu_ops();
  Stage stage(spec, model.views, DType::f32, {.rows = 10, .head_rows = 4}, *ops, 1);
  (void)stage.loss_and_backward(first.with_values(false), {}, 1, Write::overwrite, nullptr);
  const std::vector<float> a = model.gradients;
  (void)stage.loss_and_backward(second.with_values(false), {}, 1, Write::overwrite, nullptr);
  const std::vector<float> b = model.gradients;
  (void)stage.loss_and_backward(first.with_values(false), {}, 1, Write::overwrite, nullptr);
  (void)stage.loss_and_backward(second.with_values(false), {}, 1, Write::add, nullptr);
  for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(model.gradients[i], a[i] + b[i]) << i;
}

TEST_P(EveryChoice, RecomputedBlocksGiveTheSameGradients) {
  Spec spec = small_spec();
  GetParam().change(spec);
  for (const Recompute recompute : {Recompute::attention, Recompute::full}) {
    TestModel<float> kept(spec), recomputed(spec);
    TestBatch data(spec, {6, 5}, 2);
    const auto ops = make_cpu_ops();
    Stage kept_stage(spec, kept.views, DType::f32, {.rows = 11}, *ops, 1);
    Stage recomputed_stage(spec, recomputed.views, DType::f32, {.rows = 11, .recompute = recompute}, *ops, 1);
    (void)kept_stage.loss_and_backward(data.with_values(false), kStep, 1, Write::overwrite, nullptr);
    (void)recomputed_stage.loss_and_backward(data.with_values(false), kStep, 1, Write::overwrite, nullptr);
    EXPECT_EQ(recomputed.gradients, kept.gradients);
  }
}

TEST_P(EveryChoice, EvaluationInPlaceGivesTheTrainingLoss) {
  Spec spec = small_spec();
  GetParam().change(spec);
  TestModel<double> model(spec);
  TestBatch data(spec, {6, 4}, 2);
  const auto ops = make_reference_ops();
  Stage training(spec, model.views, DType::f64, {.rows = 10}, *ops, 1);
  Stage evaluation(spec, model.views, DType::f64, {.rows = 10, .training = false, .head_rows = 3}, *ops, 1);
  const Batch batch = data.with_values(true);
  EXPECT_NEAR(evaluation.loss(batch), training.loss_and_backward(batch, {}, 1, Write::overwrite, nullptr), 1e-12);
}

/// Names of a model's parameters by patterns, so that every kind of layer has a trained and a frozen neighbour.
const Trained kFrozen[] = {
    {"", "embedding"},       {"", "block.0,embedding"},      {"", "head,norm"},      {"*.bias", ""},
    {"*norm*", ""},          {"*.qkv.weight,*.mlp.out", ""}, {"block.1.mlp.in", ""}, {"", "*.weight"},
    {"embedding.token", ""}, {"head,norm,*.bias", ""}};

TEST_P(EveryChoice, FrozenParametersChangeNoGradientOfTheOthers) {
  Spec spec = small_spec();
  GetParam().change(spec);
  TestModel<float> all(spec);
  TestBatch first(spec, {6, 4}, 2), second(spec, {3, 7}, 3);
  const auto ops = make_cpu_ops();
  const auto run = [&](TestModel<float>& model) {
    Stage stage(spec, model.views, DType::f32, with_trained({.rows = 10, .head_rows = 4}, spec, model.table.trained()),
                *ops, 2);
    return stage.loss_and_backward(first.with_values(false), kStep, 1, Write::overwrite, nullptr) +
           stage.loss_and_backward(second.with_values(false), kStep, 1, Write::add, nullptr);
  };
  const double loss = run(all);
  for (const Trained& trained : kFrozen) {
    TestModel<float> model(spec, 7, trained);
    if (model.table.trained_count() == 0) continue;  // this model has none of these
    const std::vector<float> before = model.weights;
    EXPECT_EQ(run(model), loss);
    EXPECT_EQ(model.weights, before);
    for (const Parameter& p : model.table.all()) {
      if (!p.trained()) continue;
      EXPECT_EQ(model.gradient(p), all.gradient(all.table.find(p.name))) << p.name;
    }
  }
}

/// The operators that are called.
struct CallNames final : OpRecorder {
  std::vector<std::string> names;
  bool recording() const override { return true; }
  Event mark() override { return {}; }
  void add(OpCall call) override { names.push_back(call.op.substr(0, call.op.find(' '))); }
};

TEST(Stage, NothingRunsBackwardBelowTheFirstTrainedLayer) {
  const Spec spec = small_spec();
  TestModel<float> model(spec, 7, {"", "embedding,block.0"});
  TestBatch data(spec, {6, 4}, 2);
  const auto ops = make_cpu_ops();
  Stage stage(spec, model.views, DType::f32, with_trained({.rows = 10}, spec, model.table.trained()), *ops, 1);
  CallNames calls;
  ops->report_to(&calls);
  (void)stage.loss_and_backward(data.with_values(false), {}, 1, Write::overwrite, nullptr);
  ops->report_to(nullptr);
  const auto count = [&](const char* op) { return std::ranges::count(calls.names, op); };
  EXPECT_EQ(count("attention"), 2);
  EXPECT_EQ(count("attention_backward"), 1);
  EXPECT_EQ(count("embedding_backward"), 0);
}

TEST(Stage, BlocksBelowTheFirstTrainedOneShareTheirActivations) {
  Spec spec = small_spec();
  spec.layers = 6;
  const auto ops = make_cpu_ops();
  const auto bytes = [&](const Trained& trained) {
    const ModelShape shape = with_trained({.rows = 64, .accumulates = false}, spec, trained);
    return static_cast<double>(stage_bytes(spec, DType::f32, shape, *ops, 1).activations);
  };
  const double all = bytes({}), block = (bytes({}) - bytes({"", "embedding,block.0-1"})),
               more = bytes({"", "embedding,block.0-1"}) - bytes({"", "embedding,block.0-4"});
  EXPECT_EQ(bytes({"", "block.0-4"}), all) << "the embedding needs the gradient of its output";
  EXPECT_NEAR(more, 3 * block, 64 * 16) << "two blocks that share one set save one";
}

TEST(Stage, LossAloneEqualsTheLossOfTrainingWithoutDropout) {
  const Spec spec = small_spec();
  TestModel<double> model(spec);
  TestBatch data(spec, {6, 4}, 2);
  const auto ops = make_reference_ops();
  Stage stage(spec, model.views, DType::f64, {.rows = 10}, *ops, 1);
  EXPECT_EQ(stage.loss(data.batch), stage.loss_and_backward(data.batch, {}, 1, Write::overwrite, nullptr));
}

TEST(Stage, LogitsInChunksGiveTheSameLossAndGradients) {
  const Spec spec = small_spec();
  TestModel<double> whole(spec), chunked(spec);
  TestBatch data(spec, {6, 5}, 2);
  const auto ops = make_reference_ops();
  Stage whole_stage(spec, whole.views, DType::f64, {.rows = 11, .head_rows = 11}, *ops, 1);
  Stage chunked_stage(spec, chunked.views, DType::f64, {.rows = 11, .head_rows = 3}, *ops, 1);
  const double loss = whole_stage.loss_and_backward(data.batch, {}, 1, Write::overwrite, nullptr);
  EXPECT_NEAR(chunked_stage.loss_and_backward(data.batch, {}, 1, Write::overwrite, nullptr), loss, 1e-12);
  for (size_t i = 0; i < whole.gradients.size(); ++i) ASSERT_NEAR(chunked.gradients[i], whole.gradients[i], 1e-12);
}

TEST(Stage, RecomputedActivationsGiveTheSameBits) {
  Spec spec = small_spec();
  spec.attention_dropout = spec.residual_dropout = 0.2f;
  for (const Recompute recompute : {Recompute::attention, Recompute::full}) {
    TestModel<float> kept(spec), recomputed(spec);
    TestBatch data(spec, {6, 5}, 2);
    const auto ops = make_cpu_ops();
    Stage kept_stage(spec, kept.views, DType::f32, {.rows = 11}, *ops, 1);
    Stage recomputed_stage(spec, recomputed.views, DType::f32, {.rows = 11, .recompute = recompute}, *ops, 1);
    EXPECT_EQ(recomputed_stage.loss_and_backward(data.batch, kStep, 1, Write::overwrite, nullptr),
              kept_stage.loss_and_backward(data.batch, kStep, 1, Write::overwrite, nullptr));
    EXPECT_EQ(recomputed.gradients, kept.gradients);
  }
}

/// The gradients of two micro-batches, against the sum of their separate gradients: equal to the bit, or ranks and
/// accumulation would differ.
void expect_accumulation_is_one_addition(int64_t head_rows) {
  const Spec spec = small_spec();
  TestModel<float> model(spec);
  TestBatch first(spec, {6, 4}, 2), second(spec, {3, 7}, 3);
  const auto ops = make_cpu_ops();
  Stage stage(spec, model.views, DType::f32, {.rows = 10, .head_rows = head_rows}, *ops, 1);
  (void)stage.loss_and_backward(first.batch, {}, 1, Write::overwrite, nullptr);
  const std::vector<float> a = model.gradients;
  (void)stage.loss_and_backward(second.batch, {}, 1, Write::overwrite, nullptr);
  const std::vector<float> b = model.gradients;
  (void)stage.loss_and_backward(first.batch, {}, 1, Write::overwrite, nullptr);
  (void)stage.loss_and_backward(second.batch, {}, 1, Write::add, nullptr);
  for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(model.gradients[i], a[i] + b[i]) << i;
}

TEST(Stage, AccumulationAddsEachMicroBatchOnce) { expect_accumulation_is_one_addition(10); }
TEST(Stage, AccumulationAddsEachMicroBatchOnceWithChunkedLogits) { expect_accumulation_is_one_addition(4); }

TEST(Stage, ReportsGradientsInAscendingRangesOnce) {
  struct Recorder : GradientSink {
    std::vector<ParameterRange> ranges;
    void ready(ParameterRange range) override { ranges.push_back(range); }
  } recorder;
  const Spec spec = small_spec();
  TestModel<double> model(spec);
  TestBatch data(spec, {4}, 2);
  const auto ops = make_reference_ops();
  Stage stage(spec, model.views, DType::f64, {.rows = 4}, *ops, 1);
  (void)stage.loss_and_backward(data.batch, {}, 1, Write::overwrite, &recorder);
  ASSERT_EQ(recorder.ranges.size(), static_cast<size_t>(spec.layers) + 2);
  int64_t end = 0;
  for (const ParameterRange& range : recorder.ranges) {
    EXPECT_EQ(range.begin, end);
    end = range.end;
  }
  EXPECT_EQ(end, model.table.gradient_count());
}

TEST(Stage, PackedSequencesDoNotSeeEachOther) {
  const Spec spec = small_spec();
  TestModel<double> model(spec);
  TestBatch together(spec, {5, 6}, 4);
  const auto ops = make_reference_ops();
  Stage stage(spec, model.views, DType::f64, {.rows = 11}, *ops, 1);
  std::vector<double> all(static_cast<size_t>(11 * spec.vocabulary_rows)),
      alone(static_cast<size_t>(6 * spec.vocabulary_rows));
  stage.logits(together.batch, View(std::span(all), {11, spec.vocabulary_rows}));
  Batch second;
  second.tokens = together.batch.tokens.rows_slice(5, 6);
  second.positions = together.batch.positions.rows_slice(5, 6);
  std::vector<int32_t> offsets = {0, 6};
  second.offsets = View(std::span(offsets), {2});
  stage.logits(second, View(std::span(alone), {6, spec.vocabulary_rows}));
  for (size_t i = 0; i < alone.size(); ++i)
    ASSERT_NEAR(alone[i], all[static_cast<size_t>(5 * spec.vocabulary_rows) + i], 1e-12);
}

TEST_P(EveryChoice, DecodingTokenByTokenGivesTheLogitsOfTheWhole) {
  Spec spec = small_spec();
  GetParam().change(spec);
  if (spec.head != HeadKind::language_model) GTEST_SKIP() << "only language models generate";
  TestModel<double> model(spec);
  TestBatch data(spec, {6}, 4);
  const auto ops = make_reference_ops();
  Stage stage(spec, model.views, DType::f64, {.rows = 6, .training = false, .head_rows = 1}, *ops, 1);
  const int64_t columns = spec.vocabulary_rows;
  std::vector<double> whole(static_cast<size_t>(6 * columns)), one(static_cast<size_t>(columns));
  stage.logits(data.batch, View(std::span(whole), {6, columns}));
  Arena memory(size_t{1} << 20);
  const std::vector<LayerCache> cache = take_cache(spec, model.views.table->layout(), DType::f64, memory);
  for (int32_t t = 0; t < 6; ++t) {
    std::vector<int32_t> past = {t}, offsets = {0, 1};
    Batch batch;
    batch.tokens = data.batch.tokens.rows_slice(t, 1);
    batch.positions = data.batch.positions.rows_slice(t, 1);
    batch.offsets = View(std::span(offsets), {2});
    const KeyValueCache keys{.layers = cache, .past = View(std::span(past), {1})};
    stage.decode(batch, keys, View(std::span(one), {1, columns}));
    for (int64_t i = 0; i < spec.vocabulary; ++i)
      ASSERT_NEAR(one[static_cast<size_t>(i)], whole[static_cast<size_t>(t * columns + i)], 1e-12) << t;
  }
}

TEST(Stage, RefusesLayersThatTheBackendDoesNotCompute) {
  const auto gpu = make_planned_gpu_ops();
  Spec spec = small_spec();
  make_states(spec);
  spec.attention_layers = "DF";
  EXPECT_ERROR(stage_bytes(spec, DType::bf16, {.rows = 8}, *gpu, 1), ErrorKind::config,
               "this model has layers with a state (gated DeltaNet), which the cuda backend does not compute yet; set "
               "--run.device cpu");
  Spec gated = small_spec();
  gated.attention_gate = true;
  EXPECT_ERROR(stage_bytes(gated, DType::bf16, {.rows = 8}, *gpu, 1), ErrorKind::config,
               "this model has gated attention, which the cuda backend does not compute yet");
}

TEST(HeadRows, AreTheBlockOfTheOperators) {
  const Spec spec = preset("gpt2-124m").spec;  // 50,304 rows of the vocabulary
  constexpr HeadBlock kLarge{.rows = 8192, .bytes = int64_t{1} << 30};
  EXPECT_EQ(head_rows_for(spec, DType::bf16, 65536, {}), 640);
  EXPECT_EQ(head_rows_for(spec, DType::bf16, 65536, kLarge), 8192);
  EXPECT_EQ(head_rows_for(spec, DType::f32, 65536, kLarge), 5248) << "whole 128 rows within a GiB";
  EXPECT_EQ(head_rows_for(spec, DType::bf16, 100, kLarge), 100);
}

TEST(Stage, PlansTheMemoryThatItTakes) {
  const Spec spec = preset("gpt2-124m").spec;
  const auto ops = make_cpu_ops();
  const StageBytes bytes = stage_bytes(spec, DType::f32, {.rows = 4096}, *ops, 2);
  // Per row and block: x, qkv, attention, middle and inner are 10 widths; nothing else grows with the number of blocks.
  EXPECT_GT(bytes.activations, 4096ull * 12 * 10 * 768 * 4);
  EXPECT_LT(bytes.activations, 4096ull * 12 * 10 * 768 * 4 + 700'000'000);
}

}  // namespace
}  // namespace trireme
