// The losses of pairs beside values of TRL's formulas (trl/trainer/dpo_trainer.py 1.16, in float64 by PyTorch), their
// derivatives beside finite differences.

#include "train/dpo/batches.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

struct Case {
  PairLoss kind;
  double beta, smoothing;
  AnswerScore chosen, rejected;
  double loss, by_chosen, by_rejected;
};

constexpr Case kOfTrl[] = {
    {PairLoss::sigmoid,
     0.1,
     0,
     {-12.5, -13.25, 5},
     {-14, -13.5, 9},
     0.632599035317169,
     -0.0468790626626244,
     0.0468790626626244},
    {PairLoss::sigmoid,
     0.5,
     0,
     {-12.5, -13.25, 5},
     {-14, -13.5, 9},
     0.428700678276519,
     -0.174322567666973,
     0.174322567666973},
    {PairLoss::sigmoid,
     0.1,
     0,
     {-40, -36.5, 11},
     {-22, -25, 4},
     1.07005533570272,
     -0.0657010462673499,
     0.0657010462673499},
    {PairLoss::sigmoid,
     0.5,
     0,
     {-40, -36.5, 11},
     {-22, -25, 4},
     3.28804137168778,
     -0.481336556327935,
     0.481336556327935},
    {PairLoss::sigmoid, 0.1, 0, {-3, -3, 1}, {-7.5, -7.5, 2}, 0.693147180559945, -0.05, 0.05},
    {PairLoss::sigmoid, 0.5, 0, {-3, -3, 1}, {-7.5, -7.5, 2}, 0.693147180559945, -0.25, 0.25},
    {PairLoss::sigmoid,
     0.1,
     0.2,
     {-12.5, -13.25, 5},
     {-14, -13.5, 9},
     0.657599035317169,
     -0.0268790626626244,
     0.0268790626626244},
    {PairLoss::sigmoid,
     0.5,
     0.2,
     {-12.5, -13.25, 5},
     {-14, -13.5, 9},
     0.553700678276519,
     -0.0743225676669729,
     0.0743225676669729},
    {PairLoss::sigmoid,
     0.1,
     0.2,
     {-40, -36.5, 11},
     {-22, -25, 4},
     0.940055335702715,
     -0.0457010462673499,
     0.0457010462673499},
    {PairLoss::sigmoid,
     0.5,
     0.2,
     {-40, -36.5, 11},
     {-22, -25, 4},
     2.63804137168778,
     -0.381336556327935,
     0.381336556327935},
    {PairLoss::sigmoid, 0.1, 0.2, {-3, -3, 1}, {-7.5, -7.5, 2}, 0.693147180559945, -0.03, 0.03},
    {PairLoss::sigmoid, 0.5, 0.2, {-3, -3, 1}, {-7.5, -7.5, 2}, 0.693147180559945, -0.15, 0.15},
    {PairLoss::robust,
     0.1,
     0.2,
     {-12.5, -13.25, 5},
     {-14, -13.5, 9},
     0.590932368650502,
     -0.0802123959959577,
     0.0802123959959577},
    {PairLoss::robust,
     0.5,
     0.2,
     {-12.5, -13.25, 5},
     {-14, -13.5, 9},
     0.220367344943185,
     -0.34098923433364,
     0.34098923433364},
    {PairLoss::robust,
     0.1,
     0.2,
     {-40, -36.5, 11},
     {-22, -25, 4},
     1.28672200236938,
     -0.0990343796006832,
     0.0990343796006832},
    {PairLoss::robust,
     0.5,
     0.2,
     {-40, -36.5, 11},
     {-22, -25, 4},
     4.37137470502112,
     -0.648003222994602,
     0.648003222994602},
    {PairLoss::robust,
     0.1,
     0.2,
     {-3, -3, 1},
     {-7.5, -7.5, 2},
     0.693147180559945,
     -0.0833333333333333,
     0.0833333333333333},
    {PairLoss::robust,
     0.5,
     0.2,
     {-3, -3, 1},
     {-7.5, -7.5, 2},
     0.693147180559945,
     -0.416666666666667,
     0.416666666666667},
    {PairLoss::ipo, 0.1, 0, {-12.5, -13.25, 5}, {-14, -13.5, 9}, 22.9866975308642, -1.91777777777778, 1.06543209876543},
    {PairLoss::ipo,
     0.5,
     0,
     {-12.5, -13.25, 5},
     {-14, -13.5, 9},
     0.631141975308642,
     -0.317777777777778,
     0.176543209876543},
    {PairLoss::ipo, 0.1, 0, {-40, -36.5, 11}, {-22, -25, 4}, 36.8228305785124, -1.10330578512397, 3.03409090909091},
    {PairLoss::ipo, 0.5, 0, {-40, -36.5, 11}, {-22, -25, 4}, 4.27737603305785, -0.37603305785124, 1.03409090909091},
    {PairLoss::ipo, 0.1, 0, {-3, -3, 1}, {-7.5, -7.5, 2}, 25, -10, 5},
    {PairLoss::ipo, 0.5, 0, {-3, -3, 1}, {-7.5, -7.5, 2}, 1, -2, 1},
    {PairLoss::hinge, 0.1, 0, {-12.5, -13.25, 5}, {-14, -13.5, 9}, 0.875, -0.1, 0.1},
    {PairLoss::hinge, 0.5, 0, {-12.5, -13.25, 5}, {-14, -13.5, 9}, 0.375, -0.5, 0.5},
    {PairLoss::hinge, 0.1, 0, {-40, -36.5, 11}, {-22, -25, 4}, 1.65, -0.1, 0.1},
    {PairLoss::hinge, 0.5, 0, {-40, -36.5, 11}, {-22, -25, 4}, 4.25, -0.5, 0.5},
    {PairLoss::hinge, 0.1, 0, {-3, -3, 1}, {-7.5, -7.5, 2}, 1, -0.1, 0.1},
    {PairLoss::hinge, 0.5, 0, {-3, -3, 1}, {-7.5, -7.5, 2}, 1, -0.5, 0.5},
    {PairLoss::sigmoid_norm,
     0.1,
     0,
     {-12.5, -13.25, 5},
     {-14, -13.5, 9},
     0.682922218210363,
     -0.00989722584096792,
     0.00549845880053774},
    {PairLoss::sigmoid_norm,
     0.5,
     0,
     {-12.5, -13.25, 5},
     {-14, -13.5, 9},
     0.643078119870677,
     -0.047432814980522,
     0.0263515638780678},
    {PairLoss::sigmoid_norm,
     0.1,
     0,
     {-40, -36.5, 11},
     {-22, -25, 4},
     0.7479818594025,
     -0.0047879925685973,
     0.0131669795636426},
    {PairLoss::sigmoid_norm,
     0.5,
     0,
     {-40, -36.5, 11},
     {-22, -25, 4},
     0.995433362694598,
     -0.0286562156859778,
     0.0788045931364389},
    {PairLoss::sigmoid_norm, 0.1, 0, {-3, -3, 1}, {-7.5, -7.5, 2}, 0.693147180559945, -0.05, 0.025},
    {PairLoss::sigmoid_norm, 0.5, 0, {-3, -3, 1}, {-7.5, -7.5, 2}, 0.693147180559945, -0.25, 0.125},
};

double tolerance(double value) { return 1e-12 * std::max(1.0, std::abs(value)); }

TEST(PairLoss, EqualsTheFormulasOfTrl) {
  for (const Case& c : kOfTrl) {
    SCOPED_TRACE(std::string(name_of(c.kind)) + " " + std::to_string(c.loss));
    const PairScore got = pair_loss(c.chosen, c.rejected, {c.kind, c.beta, c.smoothing});
    EXPECT_NEAR(got.loss, c.loss, tolerance(c.loss));
    EXPECT_NEAR(got.by_chosen, c.by_chosen, tolerance(c.by_chosen));
    EXPECT_NEAR(got.by_rejected, c.by_rejected, tolerance(c.by_rejected));
    EXPECT_DOUBLE_EQ(got.chosen_reward, c.beta * (c.chosen.policy - c.chosen.reference));
    EXPECT_DOUBLE_EQ(got.rejected_reward, c.beta * (c.rejected.policy - c.rejected.reference));
  }
}

TEST(PairLoss, HasTheDerivativesOfFiniteDifferences) {
  for (const Named<PairLoss>& kind : Names<PairLoss>::kAll) {
    for (const double smoothing : {0.0, 0.3}) {
      for (const double beta : {0.05, 0.4}) {
        const PairLossForm form{kind.value, beta, smoothing};
        const AnswerScore chosen{-20.5, -19, 6}, rejected{-31, -30.25, 8};
        const auto loss = [&](double of_chosen, double of_rejected) {
          AnswerScore a = chosen, b = rejected;
          a.policy += of_chosen;
          b.policy += of_rejected;
          return pair_loss(a, b, form).loss;
        };
        const PairScore got = pair_loss(chosen, rejected, form);
        constexpr double kStep = 1e-5;
        EXPECT_NEAR(got.by_chosen, (loss(kStep, 0) - loss(-kStep, 0)) / (2 * kStep), 1e-8) << kind.name;
        EXPECT_NEAR(got.by_rejected, (loss(0, kStep) - loss(0, -kStep)) / (2 * kStep), 1e-8) << kind.name;
      }
    }
  }
}

TEST(PairLoss, StaysFiniteForAnyMargin) {
  for (const Named<PairLoss>& kind : Names<PairLoss>::kAll) {
    for (const double margin : {-1e5, -800.0, 0.0, 800.0, 1e5}) {
      const PairScore got = pair_loss({margin, 0, 3}, {0, 0, 4}, {kind.value, 0.5, 0});
      EXPECT_TRUE(std::isfinite(got.loss)) << kind.name << " " << margin;
      EXPECT_TRUE(std::isfinite(got.by_chosen) && std::isfinite(got.by_rejected)) << kind.name << " " << margin;
    }
  }
  // A pair that is far on its side has no loss, one that is far on the other side the slope of a line.
  EXPECT_EQ(pair_loss({1e5, 0, 1}, {0, 0, 1}, {PairLoss::sigmoid, 0.5, 0}).loss, 0);
  EXPECT_EQ(pair_loss({-1e5, 0, 1}, {0, 0, 1}, {PairLoss::sigmoid, 0.5, 0}).by_chosen, -0.5);
  EXPECT_EQ(pair_loss({1e5, 0, 1}, {0, 0, 1}, {PairLoss::hinge, 0.5, 0}).by_chosen, 0);
}

TEST(PairLoss, IsLog2WithoutTraining) {
  const AnswerScore chosen{-8, -8, 3}, rejected{-2, -2, 1};
  for (const PairLoss kind : {PairLoss::sigmoid, PairLoss::robust, PairLoss::sigmoid_norm})
    EXPECT_NEAR(pair_loss(chosen, rejected, {kind, 0.1, kind == PairLoss::robust ? 0.1 : 0}).loss, std::log(2), 1e-15);
  EXPECT_EQ(pair_loss(chosen, rejected, {PairLoss::hinge, 0.1, 0}).loss, 1);
  EXPECT_EQ(pair_loss(chosen, rejected, {PairLoss::ipo, 0.1, 0}).loss, 25);
}

}  // namespace
}  // namespace trireme
