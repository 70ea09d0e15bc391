// Losses of complete sequences through the head: their gradients by finite differences, whatever the chunks.

#include "model/pass.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/stage.h"
#include "tests/model/model_fixture.h"
#include "tests/model/spec_cases.h"

namespace trireme {
namespace {

constexpr Stage::Step kStep{.seed = 3, .step = 5, .dropout = true};

/// 2 a + 0.25 a b - 0.5 c of the sequences' cross-entropies a, b, c.
class Mixed final : public SequenceLoss {
 public:
  double samples() const override { return 1; }
  double value(std::span<const double> x, std::span<double> derivatives) const override {
    seen.assign(x.begin(), x.end());
    if (!derivatives.empty()) {
      derivatives[0] = 2 + 0.25 * x[1];
      derivatives[1] = 0.25 * x[0];
      derivatives[2] = -0.5;
    }
    return 2 * x[0] + 0.25 * x[0] * x[1] - 0.5 * x[2];
  }
  mutable std::vector<double> seen;
};

/// Three sequences; with `gathers` the batch names the rows that count.
struct Scored {
  TestBatch data;
  std::vector<int32_t> counted, counted_targets;
  Mixed loss;
  Batch batch;

  Scored(const Spec& spec, bool wide, bool gathers) : data(spec, {5, 2, 7}, 1) {
    data.targets[8] = -1;
    batch = data.with_values(wide);
    loss.offsets = data.offsets;
    for (int32_t row = 0; row < static_cast<int32_t>(data.targets.size()); ++row) {
      if (std::ranges::find(data.offsets, row) != data.offsets.end())
        loss.counted_offsets.push_back(static_cast<int32_t>(counted.size()));
      if (data.targets[static_cast<size_t>(row)] < 0) continue;
      counted.push_back(row);
      counted_targets.push_back(data.targets[static_cast<size_t>(row)]);
    }
    loss.counted_offsets.push_back(static_cast<int32_t>(counted.size()));
    batch.sequence_loss = &loss;
    if (!gathers) return;
    batch.counted = View(std::span(counted), {std::ssize(counted)});
    batch.counted_targets = View(std::span(counted_targets), {std::ssize(counted_targets)});
  }
};

class SequenceLossOf : public ::testing::TestWithParam<SpecCase> {
 protected:
  SequenceLossOf() {
    spec_ = small_spec();
    GetParam().change(spec_);
  }
  ModelShape shape(int64_t head_rows) const { return {.rows = 16, .head_rows = head_rows, .scored_sequences = 3}; }
  Spec spec_;
};

std::vector<SpecCase> decoders() {
  std::vector<SpecCase> all;
  for (const SpecCase& one : kSpecCases) {
    Spec spec = small_spec();
    one.change(spec);
    if (spec.has_decoder()) all.push_back(one);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Stage, SequenceLossOf, ::testing::ValuesIn(decoders()),
                         [](const auto& choice) { return std::string(choice.param.name); });

TEST_P(SequenceLossOf, BackwardEqualsFiniteDifferencesOfTheReference) {
  TestModel<double> model(spec_);
  Scored data(spec_, true, true);
  const auto ops = make_reference_ops();
  Stage stage(spec_, model.views, DType::f64, shape(4), *ops, 1);
  const float scale = 0.5f;
  (void)stage.loss_and_backward(data.batch, kStep, scale, Write::overwrite, nullptr);
  const std::vector<double> kept = model.gradients;
  for (const Parameter& p : model.table.all()) {
    model.gradients = kept;
    const std::vector<double> gradient = model.gradient(p);
    const int64_t stride = std::max<int64_t>(1, p.count() / 4);
    for (int64_t i = 0; i < p.stored_shape.count(); i += stride) {
      double& w = model.weights[static_cast<size_t>(p.offset + i)];
      const double h = 1e-5, before = w;
      w = before + h;
      const double above = stage.loss_and_backward(data.batch, kStep, scale, Write::overwrite, nullptr);
      w = before - h;
      const double below = stage.loss_and_backward(data.batch, kStep, scale, Write::overwrite, nullptr);
      w = before;
      const double expected = static_cast<double>(scale) * (above - below) / (2 * h);
      // Gradients of factors are floats for the operators: 6e-8 of the largest term.
      EXPECT_NEAR(gradient[static_cast<size_t>(i)], expected, 2e-6 * std::max(1.0, std::abs(expected)))
          << p.name << "[" << i << "]";
    }
  }
}

TEST_P(SequenceLossOf, CpuEqualsTheReferenceForAnyChunksAndRows) {
  TestModel<double> exact(spec_);
  Scored data(spec_, true, false);
  const auto reference = make_reference_ops();
  Stage exact_stage(spec_, exact.views, DType::f64, shape(16), *reference, 1);
  const double expected = exact_stage.loss_and_backward(data.batch, kStep, 1, Write::overwrite, nullptr);
  const auto cpu = make_cpu_ops();
  for (const bool gathers : {false, true}) {
    for (const int64_t head_rows : {3, 16}) {
      TestModel<float> fast(spec_);
      Scored same(spec_, false, gathers);
      Stage stage(spec_, fast.views, DType::f32, shape(head_rows), *cpu, 2);
      EXPECT_NEAR(stage.loss_and_backward(same.batch, kStep, 1, Write::overwrite, nullptr), expected, 1e-4);
      EXPECT_EQ(same.loss.seen.size(), 3U);
      for (size_t s = 0; s < 3; ++s) EXPECT_NEAR(same.loss.seen[s], data.loss.seen[s], 1e-4) << s;
      for (const Parameter& p : exact.table.all()) {
        const auto a = exact.gradient(p), b = fast.gradient(p);
        for (size_t i = 0; i < a.size(); ++i)
          ASSERT_NEAR(b[i], a[i], 5e-4 * std::max(1.0, std::abs(a[i])))
              << p.name << "[" << i << "], " << gathers << ", " << head_rows;
      }
    }
  }
}

TEST_P(SequenceLossOf, TheForwardAloneHasTheSameValue) {
  TestModel<double> model(spec_);
  const auto ops = make_reference_ops();
  Stage stage(spec_, model.views, DType::f64, shape(4), *ops, 1);
  Scored data(spec_, true, true);
  const double want =
      stage.loss_and_backward(data.batch, {.seed = 3, .step = 5, .dropout = false}, 1, Write::overwrite, nullptr);
  EXPECT_NEAR(stage.loss(data.batch), want, 1e-12 * std::abs(want));
}

}  // namespace
}  // namespace trireme
