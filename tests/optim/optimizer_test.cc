#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "tests/support/norm_values.h"
#include "tests/support/tiny_model.h"

namespace trireme {
namespace {

class OptimizerTest : public testing::Test {
 protected:
  OptimizerTest() : state_(table_, DType::f64, true), group_(make_single()), ops_(make_reference_ops()) {
    options_.adamw.weight_decay = 0.1f;
    initialize(state_, table_, 3);
  }

  void random_gradients(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (double& g : state_.gradients().values<double>()) g = normal(random);
  }
  void expect_definition(bool decay_all);
  double gradient(const Parameter& p, int64_t i) { return state_.gradients().as<double>()[p.offset + i]; }
  double weight(const Parameter& p, int64_t i) { return state_.weights().as<double>()[p.offset + i]; }

  ParameterTable table_{tiny_spec()};
  TrainingState state_;
  std::unique_ptr<Communicator> group_;
  std::unique_ptr<Ops> ops_;
  OptimizerOptions options_;
  Context context_;
};

TEST_F(OptimizerTest, AddsTheTiedMatrixSecondSumOnce) {
  random_gradients(1);
  const Parameter& matrix = table_.find("embedding.token.weight");
  std::vector<double> expected(static_cast<size_t>(matrix.count()));
  for (int64_t i = 0; i < matrix.count(); ++i) {
    expected[static_cast<size_t>(i)] = gradient(matrix, i) + state_.gradients().as<double>()[table_.flat_count() + i];
  }
  Optimizer optimizer(table_, state_, *ops_, *group_, options_);
  optimizer.begin_exchange();
  optimizer.ready({0, table_.gradient_count()});
  (void)finish_exchange(optimizer, context_);
  for (int64_t i = 0; i < matrix.count(); ++i) ASSERT_EQ(gradient(matrix, i), expected[static_cast<size_t>(i)]);
}

TEST_F(OptimizerTest, TheNormCoversEveryParameterOnce) {
  random_gradients(2);
  Optimizer optimizer(table_, state_, *ops_, *group_, options_);
  optimizer.begin_exchange();
  const double squares = std::pow(norm_of(finish_exchange(optimizer, context_)), 2);
  double expected = 0;
  for (const Parameter& p : table_.all()) {
    for (int64_t i = 0; i < p.count(); ++i) expected += gradient(p, i) * gradient(p, i);
  }
  EXPECT_NEAR(squares, expected, 1e-12 * expected);
}

TEST_F(OptimizerTest, UpdatesByTheDefinitionWithDecayOnMatricesOnly) { expect_definition(false); }

TEST_F(OptimizerTest, DecaysBiasesAndNormsOnRequest) { expect_definition(true); }

void OptimizerTest::expect_definition(bool decay_all) {
  options_.decay_all = decay_all;
  for (double& w : state_.weights().values<double>()) w += 0.5;  // norms and biases begin at 1 and 0
  random_gradients(3);
  const std::vector<double> before(state_.weights().values<double>().begin(), state_.weights().values<double>().end());
  Optimizer optimizer(table_, state_, *ops_, *group_, options_);
  optimizer.begin_exchange();
  const double norm = norm_of(finish_exchange(optimizer, context_));
  const double lr = 1e-2, clip = 1.0 / (norm + 1e-6);
  ASSERT_LT(clip, 1);
  optimizer.update(context_, lr, 1, norm);
  // At t = 1 the corrections cancel the factors of both moments: the step is lr g / (|g| + eps).
  for (const Parameter& p : table_.all()) {
    for (int64_t i = 0; i < p.count(); ++i) {
      const double g = clip * gradient(p, i), w = before[static_cast<size_t>(p.offset + i)];
      const double decayed = p.rule == UpdateRule::adamw || decay_all ? w * (1 - lr * static_cast<double>(0.1f)) : w;
      ASSERT_NEAR(weight(p, i), decayed - lr * g / (std::abs(g) + 1e-8), 2e-7) << p.name << " " << i;
    }
  }
}

TEST_F(OptimizerTest, ANormBelowTheClipScalesNothing) {
  random_gradients(4);
  options_.clip = 1e9;
  Optimizer optimizer(table_, state_, *ops_, *group_, options_);
  optimizer.begin_exchange();
  optimizer.update(context_, 1e-2, 1, norm_of(finish_exchange(optimizer, context_)));
  const Parameter& p = table_.find("norm.weight");
  const double g = gradient(p, 0);
  EXPECT_NEAR(state_.state(kAdamM).as<double>()[p.offset], (1 - static_cast<double>(0.9f)) * g, 1e-7 * std::abs(g));
}

TEST_F(OptimizerTest, LaterStepsUseTheBiasCorrectionsOfTheirCount) {
  options_.clip = 0;
  options_.adamw.weight_decay = 0;
  Optimizer optimizer(table_, state_, *ops_, *group_, options_);
  const Parameter& p = table_.find("block.1.mlp.in.bias");
  double m = 0, v = 0, w = weight(p, 5);
  for (int64_t t = 1; t <= 5; ++t) {
    random_gradients(static_cast<unsigned>(10 + t));
    optimizer.begin_exchange();
    optimizer.update(context_, 1e-3, t, norm_of(finish_exchange(optimizer, context_)));
    const double g = gradient(p, 5), b1 = static_cast<double>(0.9f), b2 = static_cast<double>(0.95f);
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * g * g;
    w -= 1e-3 * (m / (1 - std::pow(b1, t))) / (std::sqrt(v / (1 - std::pow(b2, t))) + 1e-8);
    ASSERT_NEAR(weight(p, 5), w, 1e-8) << "t = " << t;
  }
}

TEST_F(OptimizerTest, PaddingRowsStayZero) {
  Optimizer optimizer(table_, state_, *ops_, *group_, options_);
  const Parameter& matrix = table_.find("embedding.token.weight");
  for (int64_t t = 1; t <= 3; ++t) {
    random_gradients(static_cast<unsigned>(t));
    for (int64_t i = matrix.stored_shape.count(); i < matrix.count(); ++i) {
      state_.gradients().as<double>()[matrix.offset + i] = 0;
      state_.gradients().as<double>()[table_.flat_count() + i] = 0;
    }
    optimizer.begin_exchange();
    optimizer.update(context_, 1e-2, t, norm_of(finish_exchange(optimizer, context_)));
  }
  for (int64_t i = matrix.stored_shape.count(); i < matrix.count(); ++i) ASSERT_EQ(weight(matrix, i), 0);
}

TEST(Optimizer, NeedsGradientsAndMoments) {
  const ParameterTable table(tiny_spec());
  TrainingState state(table, DType::f32, false);
  const auto ops = make_reference_ops();
  const auto group = make_single();
  try {
    const Optimizer optimizer(table, state, *ops, *group, {});
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "an optimizer needs a training state with gradients and moments");
  }
}

}  // namespace
}  // namespace trireme
