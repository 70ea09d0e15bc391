// What the loss of a step is a mean over, where micro-batches differ in how many of their tokens count: loss and
// gradients against those of each sample alone, ranks as threads.

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <mutex>

#include "data/sample_source.h"
#include "model/mesh_layout.h"
#include "model/pipeline_order.h"
#include "tests/support/local_ranks.h"
#include "tests/support/tiny_model.h"
#include "train/step.h"

namespace trireme {
namespace {

constexpr int64_t kSequence = 8;
constexpr int32_t kEnd = 0;

/// Of sample n the first 3 n tokens are the end of a text: 8, 5 and 2 of its tokens count.
class Text final : public FileSource {
 public:
  explicit Text(uint64_t first) : first_(first) {}
  void fill(SampleStream, uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) const override {
    const uint64_t n = first_ + index;
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = i < 3 * n ? kEnd : static_cast<int32_t>(1 + (n + 1) * (i + 2) % 12);
      targets[i] = static_cast<int32_t>(1 + (n + 2) * (i + 3) % 12);
    }
  }
  uint64_t tokens() const override { return 100; }
  std::string name() const override { return "text"; }
  std::vector<SourceFile> files(const BeforeBlock&) const override { return {}; }

 private:
  uint64_t first_;
};

struct Outcome {
  double loss = 0, norm = 0, evaluation = 0;
  std::vector<float> gradients;  ///< of the first rank
};

/// One step that changes no weight.
Outcome step_of(uint64_t first, int64_t samples, LossMean mean, const MeshShape& mesh = {1, 1, 1}) {
  Spec spec = tiny_spec();
  spec.layers = 2;
  spec.heads = 4;
  Outcome outcome;
  std::mutex mutex;
  run_local(static_cast<int>(mesh.data * mesh.tensor * mesh.pipeline), [&](RankContext& rank) {
    const Backend backend = make_backend();
    const ParameterTable table(spec, InitScheme::gpt2, layout_of(spec, mesh, rank.rank()));
    const MeshPlace place = place_of(mesh, rank.rank());
    OptimizerOptions options;
    options.wire = DType::f32;
    TrainingState state(table, DType::f32, true, kept_states(table, options, static_cast<int>(mesh.data), place.data));
    initialize(state, table, 5);
    const BatchShape shape{.global = samples,
                           .micro_batches = (samples + mesh.data - 1) / mesh.data,
                           .sequence = kSequence,
                           .ranks = static_cast<int>(mesh.data),
                           .rank = place.data};
    const auto order = pipeline_order(place.pipeline, mesh.pipeline, 1, shape.micro_batches);
    const std::unique_ptr<Session> made =
        Session::make({.spec = spec,
                       .dtype = DType::f32,
                       .shape = {.rows = kSequence, .head_rows = 4, .slots = slots_of(order, 0)},
                       .mesh = mesh,
                       .optimizer = options},
                      table, state, *backend.ops, rank);
    Session& session = *made;
    const EndOfTextSource source(std::make_unique<Text>(first), kEnd);
    SampleBatches batches(source, shape);
    TrainStep step(session, batches, 7, mean);
    const StepResult result = step.run({.learning_rate = 0, .most_loss = std::numeric_limits<double>::infinity()});
    const double evaluation = evaluate(session, source, shape, 1, mean).value();
    const std::lock_guard lock(mutex);
    if (rank.rank() == 0) {
      const float* gradients = state.gradients().as<float>();
      outcome = {result.loss, result.norm, evaluation, {gradients, gradients + state.gradients().count()}};
    }
  });
  return outcome;
}

/// Sum over the three samples, weighted.
void expect_sum(const Outcome& got, const std::vector<double>& weights) {
  std::vector<Outcome> alone;
  for (uint64_t n = 0; n < 3; ++n) alone.push_back(step_of(n, 1, LossMean::tokens));
  double loss = 0;
  for (size_t n = 0; n < 3; ++n) loss += weights[n] * alone[n].loss;
  EXPECT_NEAR(got.loss, loss, 1e-6);
  EXPECT_NEAR(got.evaluation, loss, 1e-6);
  ASSERT_EQ(got.gradients.size(), alone[0].gradients.size());
  for (size_t i = 0; i < got.gradients.size(); ++i) {
    double want = 0;
    for (size_t n = 0; n < 3; ++n) want += weights[n] * static_cast<double>(alone[n].gradients[i]);
    ASSERT_NEAR(got.gradients[i], want, 1e-6) << i;
  }
}

TEST(LossMean, TokensHaveEqualWeightAtEveryPlace) {
  expect_sum(step_of(0, 3, LossMean::tokens), {8. / 15, 5. / 15, 2. / 15});
}

TEST(LossMean, MicroBatchesHaveEqualWeightWithAnyNumberOfTokens) {
  expect_sum(step_of(0, 3, LossMean::micro_batches), {1. / 3, 1. / 3, 1. / 3});
}

TEST(LossMean, IsTheSameOverEveryMesh) {
  for (const LossMean mean : {LossMean::tokens, LossMean::micro_batches}) {
    const Outcome want = step_of(0, 3, mean);
    for (const MeshShape& mesh : {MeshShape{3, 1, 1}, MeshShape{2, 1, 1}, MeshShape{1, 2, 2}}) {
      const Outcome got = step_of(0, 3, mean, mesh);
      EXPECT_NEAR(got.loss, want.loss, 1e-6) << mesh.data;
      EXPECT_NEAR(got.norm, want.norm, 1e-5) << mesh.data;
      EXPECT_NEAR(got.evaluation, want.evaluation, 1e-6) << mesh.data;
    }
  }
}

TEST(LossMean, AMicroBatchInWhichNothingCountsAddsNothing) {
  const Outcome got = step_of(2, 2, LossMean::micro_batches),
                alone = step_of(2, 1, LossMean::tokens);  // 2 and 0 tokens
  EXPECT_NEAR(got.loss, alone.loss / 2, 1e-6);
  EXPECT_NEAR(got.norm, alone.norm / 2, 1e-6);
}

TEST(EndOfTextSource, TakesTheTargetsOfTheEndsAndNoOthers) {
  const Text text(1);
  const EndOfTextSource source(std::make_unique<Text>(1), kEnd);
  std::vector<int32_t> plain(kSequence), targets(kSequence), tokens(kSequence);
  text.fill(SampleStream::training, 0, tokens, plain);
  source.fill(SampleStream::training, 0, tokens, targets);
  for (size_t i = 0; i < targets.size(); ++i) EXPECT_EQ(targets[i], i < 3 ? -1 : plain[i]) << i;
  EXPECT_FALSE(source.counts_all());
}

}  // namespace
}  // namespace trireme
