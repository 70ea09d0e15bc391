#include "model/stage_part.h"

#include <gtest/gtest.h>

#include <deque>

#include "model/pipeline_order.h"
#include "model/stage.h"
#include "tests/model/model_fixture.h"
#include "tests/model/spec_cases.h"
#include "tests/support/expect_error.h"
#include "tests/support/vector_view.h"

namespace trireme {
namespace {

/// Of the micro-batch in slot 0, after its forward.
double loss_of(StagePart& part) {
  double loss = 0;
  part.loss(0, View(&loss, DType::f64, {1}));
  return loss;
}

/// Of a part that has everything.
double loss_and_backward(StagePart& part, int64_t slot, StagePart::Gradients gradients) {
  double loss = 0;
  gradients.loss = View(&loss, DType::f64, {1});
  part.backward(slot, gradients, {}, {});
  return loss;
}

constexpr StagePart::Step kStep{.seed = 3, .step = 5, .dropout = true};
constexpr int64_t kMicroBatches = 4;
constexpr float kScale = 0.5f;

/// Micro-batches of different row counts.
std::deque<TestBatch> micro_batches(const Spec& spec) {
  std::deque<TestBatch> all;
  const std::vector<int> lengths[kMicroBatches] = {{6, 4}, {3, 7, 1}, {8}, {2, 5}};
  for (int64_t m = 0; m < kMicroBatches; ++m) all.emplace_back(spec, lengths[m], static_cast<uint64_t>(10 + m));
  return all;
}
constexpr int64_t kRows = 11;

/// Results of a step: losses and gradients.
constexpr std::array kRecompute{Recompute::none, Recompute::attention, Recompute::full};

struct Outcome {
  std::vector<double> losses = std::vector<double>(kMicroBatches);
  std::vector<float> gradients;
};

Outcome whole_model(const Spec& spec, Recompute recompute) {
  TestModel<float> model(spec);
  auto batches = micro_batches(spec);
  const auto ops = make_cpu_ops();
  Stage stage(spec, model.views, DType::f32, {.rows = kRows, .recompute = recompute}, *ops, 1);
  Outcome out;
  for (size_t m = 0; m < batches.size(); ++m)
    out.losses[m] = stage.loss_and_backward(batches[m].with_values(false), kStep, kScale,
                                            m == 0 ? Write::overwrite : Write::add, nullptr);
  out.gradients = model.gradients;
  return out;
}

/// The parts of a pipeline, run in one thread: an action waits until its input is ready.
class Pipeline {
 public:
  Pipeline(const Spec& spec, int64_t stages, int64_t chunks, Recompute recompute)
      : spec_(spec), stages_(stages), chunks_(chunks), batches_(micro_batches(spec)), model_(spec) {
    const int64_t parts = stages * chunks;
    for (int64_t p = 0; p < parts; ++p) {
      const int64_t first = p * spec.layers / parts, last = (p + 1) * spec.layers / parts;
      const ModelPart part{.first_layer = first, .last_layer = last, .embedding = p == 0, .head = p == parts - 1};
      const auto order = pipeline_order(p % stages, stages, chunks, kMicroBatches);
      const ModelShape shape{.rows = kRows, .recompute = recompute, .slots = slots_of(order, p / stages)};
      workspaces_.push_back(std::make_unique<StageWorkspace>(spec_, Layout{part}, DType::f32, shape, *ops_, 1));
      parts_.push_back(
          std::make_unique<StagePart>(spec_, Layout{part}, model_.views, DType::f32, shape, *workspaces_.back()));
      slots_.push_back(shape.slots);
    }
    const auto buffers = static_cast<size_t>((parts + 1) * kMicroBatches);
    activations_.resize(buffers);
    gradients_.resize(buffers);
  }

  Outcome run() {
    Outcome out;
    std::vector<std::vector<PipelineAction>> orders;
    for (int64_t s = 0; s < stages_; ++s) orders.push_back(pipeline_order(s, stages_, chunks_, kMicroBatches));
    std::vector<size_t> next(orders.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t s = 0; s < orders.size(); ++s) {
        while (next[s] < orders[s].size() && act(static_cast<int64_t>(s), orders[s][next[s]], out)) {
          ++next[s];
          moved = true;
        }
      }
    }
    for (size_t s = 0; s < orders.size(); ++s) EXPECT_EQ(next[s], orders[s].size());
    out.gradients = model_.gradients;
    return out;
  }

 private:
  View buffer(std::vector<std::vector<float>>& all, int64_t part, int64_t micro_batch) {
    std::vector<float>& values = all[static_cast<size_t>(part * kMicroBatches + micro_batch)];
    const int64_t rows = batches_[static_cast<size_t>(micro_batch)].batch.rows();
    values.resize(static_cast<size_t>(rows * spec_.width));
    return View(std::span(values), {rows, spec_.width});
  }

  bool act(int64_t stage, const PipelineAction& action, Outcome& out) {
    const int64_t p = action.chunk * stages_ + stage, m = action.micro_batch, last = stages_ * chunks_ - 1;
    StagePart& part = *parts_[static_cast<size_t>(p)];
    const int64_t slot = m % slots_[static_cast<size_t>(p)];
    const auto there = [&](const std::vector<std::vector<float>>& all, int64_t at) {
      return !all[static_cast<size_t>(at * kMicroBatches + m)].empty();
    };
    if (action.pass == PipelinePass::forward) {
      if (p > 0 && !there(activations_, p)) return false;
      part.forward(slot, batches_[static_cast<size_t>(m)].with_values(false), kStep,
                   p > 0 ? buffer(activations_, p, m) : View(), p < last ? buffer(activations_, p + 1, m) : View());
    } else {
      if (p < last && !there(gradients_, p + 1)) return false;
      part.backward(slot,
                    {.scale = kScale,
                     .loss = View(std::span(out.losses), {kMicroBatches}).rows_slice(m, 1),
                     .write = m == 0 ? Write::overwrite : Write::add},
                    p < last ? buffer(gradients_, p + 1, m) : View(), p > 0 ? buffer(gradients_, p, m) : View());
    }
    return true;
  }

  Spec spec_;
  int64_t stages_, chunks_;
  std::deque<TestBatch> batches_;
  TestModel<float> model_;
  std::unique_ptr<Ops> ops_ = make_cpu_ops();
  std::vector<std::unique_ptr<StageWorkspace>> workspaces_;
  std::vector<std::unique_ptr<StagePart>> parts_;
  std::vector<int64_t> slots_;
  std::vector<std::vector<float>> activations_, gradients_;  ///< [part, micro-batch] that a part takes
};

class EveryChoiceInParts : public ::testing::TestWithParam<SpecCase> {};

INSTANTIATE_TEST_SUITE_P(StagePart, EveryChoiceInParts, ::testing::ValuesIn(kSpecCases),
                         [](const auto& choice) { return std::string(choice.param.name); });

TEST_P(EveryChoiceInParts, APipelineGivesTheBitsOfTheWholeModel) {
  Spec spec = small_spec();
  GetParam().change(spec);
  spec.layers = 4;
  spec.attention_layers += spec.attention_layers;
  for (const Recompute recompute : kRecompute) {
    const Outcome whole = whole_model(spec, recompute);
    struct {
      int64_t stages, chunks;
    } pipelines[] = {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {2, 2}};
    for (const auto [stages, chunks] : pipelines) {
      const Outcome parts = Pipeline(spec, stages, chunks, recompute).run();
      EXPECT_EQ(parts.losses, whole.losses) << stages << " x " << chunks;
      EXPECT_EQ(parts.gradients, whole.gradients) << stages << " x " << chunks;
    }
  }
}

TEST_P(EveryChoiceInParts, SlotsKeepMicroBatchesApart) {
  Spec spec = small_spec();
  GetParam().change(spec);
  for (const Recompute recompute : kRecompute) {
    const Outcome whole = whole_model(spec, recompute);
    TestModel<float> model(spec);
    auto batches = micro_batches(spec);
    const auto ops = make_cpu_ops();
    const ModelShape shape{.rows = kRows, .recompute = recompute, .slots = kMicroBatches};
    StageWorkspace workspace(spec, {}, DType::f32, shape, *ops, 1);
    StagePart part(spec, {}, model.views, DType::f32, shape, workspace);
    for (int64_t m = 0; m < kMicroBatches; ++m)
      part.forward(m, batches[static_cast<size_t>(m)].with_values(false), kStep, {}, {});
    for (int64_t m = 0; m < kMicroBatches; ++m) {
      const Write write = m == 0 ? Write::overwrite : Write::add;
      EXPECT_EQ(loss_and_backward(part, m, {.scale = kScale, .write = write}), whole.losses[static_cast<size_t>(m)]);
    }
    EXPECT_EQ(model.gradients, whole.gradients);
  }
}

/// Weights are NaN except those needed now.
class HiddenWeights final : public WeightSource {
 public:
  explicit HiddenWeights(std::vector<float>& weights) : weights_(weights), truth_(weights), readers_(weights.size()) {
    std::fill(weights.begin(), weights.end(), NAN);
  }
  void need(ParameterRange range, ParameterRange /*next*/) override { change(range, 1); }
  void done(ParameterRange range) override { change(range, -1); }
  bool hidden() const {
    return std::all_of(weights_.begin(), weights_.end(), [](float w) { return std::isnan(w); });
  }
  size_t most() const { return most_; }

 private:
  void change(ParameterRange range, int by) {
    for (auto i = static_cast<size_t>(range.begin); i < static_cast<size_t>(range.end); ++i) {
      readers_[i] += by;
      ASSERT_GE(readers_[i], 0);
      weights_[i] = readers_[i] > 0 ? truth_[i] : NAN;
    }
    most_ = std::max(most_, readers_.size() - static_cast<size_t>(std::count(readers_.begin(), readers_.end(), 0)));
  }
  std::vector<float>& weights_;
  std::vector<float> truth_;
  std::vector<int> readers_;
  size_t most_ = 0;
};

TEST_P(EveryChoiceInParts, ReadsNoWeightsButThoseThatItNeeds) {
  Spec spec = small_spec();
  GetParam().change(spec);
  for (const Recompute recompute : kRecompute) {
    TestModel<float> plain(spec), hidden(spec);
    TestBatch data(spec, {6, 5}, 2);
    const Batch batch = data.with_values(false);
    const auto ops = make_cpu_ops();
    const ModelShape shape{.rows = kRows, .recompute = recompute};
    StageWorkspace workspace(spec, {}, DType::f32, shape, *ops, 1);
    StagePart all_there(spec, {}, plain.views, DType::f32, shape, workspace);
    all_there.forward(0, batch, kStep, {}, {});
    const double loss = loss_and_backward(all_there, 0, {});

    HiddenWeights source(hidden.weights);
    StagePart part(spec, {}, hidden.views, DType::f32, shape, workspace, &source);
    part.forward(0, batch, kStep, {}, {});
    EXPECT_EQ(loss_of(part), loss_of(all_there));
    part.forward(0, batch, kStep, {}, {});
    EXPECT_EQ(loss_and_backward(part, 0, {}), loss);
    EXPECT_EQ(hidden.gradients, plain.gradients);
    EXPECT_TRUE(source.hidden()) << "everything that was needed is done with";
    EXPECT_LT(source.most(), hidden.weights.size()) << "never all at once";
  }
}

TEST(StagePart, ReportsItsOwnGradientsInAscendingRanges) {
  struct Recorder : GradientSink {
    std::vector<ParameterRange> ranges;
    void ready(ParameterRange range) override { ranges.push_back(range); }
  };
  const Spec spec = small_spec();
  TestModel<float> model(spec);
  TestBatch data(spec, {4}, 2);
  const auto ops = make_cpu_ops();
  const ModelShape shape{.rows = 4};
  StageWorkspace workspace(spec, {}, DType::f32, shape, *ops, 1);
  StagePart front(spec, {.part = {.last_layer = 1, .head = false}}, model.views, DType::f32, shape, workspace);
  StagePart back(spec, {.part = {.first_layer = 1, .embedding = false}}, model.views, DType::f32, shape, workspace);
  std::vector<float> between(static_cast<size_t>(4 * spec.width));
  const View activations{std::span(between), {4, spec.width}};
  front.forward(0, data.batch, {}, {}, activations);
  back.forward(0, data.batch, {}, activations, {});
  Recorder of_front, of_back;
  double loss = 0;
  back.backward(0, {.loss = View(&loss, DType::f64, {1}), .sink = &of_back}, {}, activations);
  front.backward(0, {.sink = &of_front}, activations, {});
  const auto& ranges = model.table.ready_ranges();
  EXPECT_EQ(of_back.ranges, (std::vector<ParameterRange>{ranges[0], ranges[1]}));
  EXPECT_EQ(of_front.ranges, (std::vector<ParameterRange>{ranges[2], ranges[3]}));
}

TEST(StagePart, TakesItsInputWhereItKeepsIt) {
  const Spec spec = small_spec();
  TestModel<float> model(spec);
  TestBatch data(spec, {5, 2}, 2);
  const auto ops = make_cpu_ops();
  const ModelShape shape{.rows = 7};
  StageWorkspace workspace(spec, {}, DType::f32, shape, *ops, 1);
  StagePart front(spec, {.part = {.last_layer = 1, .head = false}}, model.views, DType::f32, shape, workspace);
  StagePart back(spec, {.part = {.first_layer = 1, .embedding = false}}, model.views, DType::f32, shape, workspace);
  const View input = back.input(0, 7);
  front.forward(0, data.batch, {}, {}, input);
  back.forward(0, data.batch, {}, input, {});
  Stage whole(spec, model.views, DType::f32, shape, *ops, 1);
  EXPECT_EQ(loss_of(back), whole.loss(data.batch));
}

TEST(StagePart, RefusesABatchThatWouldMisleadOperators) {
  Spec spec = small_spec();
  TestModel<float> model(spec);
  const auto ops = make_cpu_ops();
  const ModelShape shape{.rows = 7};
  StageWorkspace workspace(spec, {}, DType::f32, shape, *ops, 1);
  StagePart part(spec, {}, model.views, DType::f32, shape, workspace);
  const auto refused = [&](ErrorKind kind, const std::string& message, auto change) {
    TestBatch data(spec, {5, 2}, 2);
    Batch batch = data.with_values(false);
    std::vector<int32_t> tokens(batch.tokens.values<int32_t>().begin(), batch.tokens.values<int32_t>().end()),
        positions(batch.positions.values<int32_t>().begin(), batch.positions.values<int32_t>().end()),
        offsets(batch.offsets.values<int32_t>().begin(), batch.offsets.values<int32_t>().end());
    change(tokens, positions, offsets);
    batch.tokens = view(tokens), batch.positions = view(positions), batch.offsets = view(offsets);
    EXPECT_ERROR(part.forward(0, batch, kStep, {}, {}), kind, message);
  };
  const std::string rows = std::to_string(spec.vocabulary_rows), context = std::to_string(spec.context);
  refused(ErrorKind::data, "embedding: token of row 2 is -1, outside its table of " + rows + " rows",
          [](auto& tokens, auto&, auto&) { tokens[2] = -1; });
  refused(ErrorKind::data, "embedding: position of row 6 is " + context + ", outside its table of " + context + " rows",
          [&](auto&, auto& positions, auto&) { positions[6] = static_cast<int32_t>(spec.context); });
  refused(ErrorKind::shape, "attention: offsets end at 6, expected the number of rows, 7",
          [](auto&, auto&, auto& offsets) { offsets[2] = 6; });
}

TEST(StagePart, PlansItsSlots) {
  const Spec spec = small_spec();
  const auto ops = make_cpu_ops();
  const auto bytes = [&](int64_t slots, Recompute recompute, const ModelPart& part = {}) {
    return stage_bytes(spec, DType::f32, {.rows = 64, .recompute = recompute, .slots = slots}, *ops, 1, Layout{part})
        .activations;
  };
  // Per row: two blocks of x, qkv, attention, middle (6 widths) with the inner width and lse, and the head's input.
  const size_t slot = 64 * sizeof(float) * static_cast<size_t>(2 * (6 * 8 + 20 + 2) + 8);
  constexpr auto kNone = Recompute::none, kFull = Recompute::full;
  EXPECT_EQ(bytes(2, kNone) - bytes(1, kNone), slot);
  EXPECT_EQ(bytes(5, kNone) - bytes(1, kNone), 4 * slot);
  EXPECT_EQ(bytes(2, Recompute::attention) - bytes(1, Recompute::attention),
            slot - 64 * sizeof(float) * static_cast<size_t>(2 * (8 + 2)))
      << "without the attention's output and lse of two blocks";
  EXPECT_EQ(bytes(3, kFull) - bytes(1, kFull), 2 * 64 * sizeof(float) * 3 * 8)
      << "inputs of two blocks and of the head";
  EXPECT_EQ(bytes(2, kFull, {.first_layer = 1, .last_layer = 2, .embedding = false, .head = false}) -
                bytes(1, kFull, {.first_layer = 1, .last_layer = 2, .embedding = false, .head = false}),
            64 * sizeof(float) * 8)
      << "the input of one block";
}

TEST(Stage, PlansTheSlotsOfEachOfItsChunks) {
  Spec spec = small_spec();
  spec.layers = 4;
  const auto ops = make_cpu_ops();
  const Layout layout{{0, 3, true, false}, 0, 1, {{0, 1, true, false}, {2, 3, false, false}}};
  const auto bytes = [&](const std::vector<int64_t>& slots) {
    const ModelShape shape{.rows = 64, .chunk_slots = slots};
    return stage_bytes(spec, DType::f32, shape, *ops, 1, layout).activations;
  };
  // A block: x, qkv, attention and middle, the inner width and lse.
  const size_t block = 64 * sizeof(float) * static_cast<size_t>(6 * 8 + 20 + 2);
  EXPECT_EQ(bytes({3, 1}) - bytes({1, 1}), 2 * block);
  EXPECT_EQ(bytes({3, 2}) - bytes({1, 1}), 3 * block);
}

TEST(StagePart, RefusesPartsThatAreNotSlicesOfTheModel) {
  const Spec spec = small_spec();
  EXPECT_ERROR(ModelPart({.last_layer = 3}).of(spec), ErrorKind::config,
               "part of a model: blocks 0 to 3, the model has 2");
  EXPECT_ERROR(ModelPart({.first_layer = 1}).of(spec), ErrorKind::config,
               "part of a model: it has the embedding but begins at block 1; the embedding goes with block 0");
  EXPECT_ERROR(ModelPart({.last_layer = 1}).of(spec), ErrorKind::config,
               "part of a model: it has the head but ends at block 1 of 2; the head goes with the last block");
  EXPECT_ERROR(ModelPart({.first_layer = 1, .last_layer = 1, .embedding = false, .head = false}).of(spec),
               ErrorKind::config,
               "it has no block, no embedding and no head; use fewer stages than the model's 2 blocks");
}

}  // namespace
}  // namespace trireme
