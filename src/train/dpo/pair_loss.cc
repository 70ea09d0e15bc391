#include "train/dpo/batches.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace trireme {
namespace {

/// log(1 / (1 + e^-x)) without overflow.
double log_sigmoid(double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))); }
double sigmoid(double x) { return std::exp(log_sigmoid(x)); }

struct LossAndSlope {
  double loss, slope;  ///< slope: by the margin
};

/// margin: how much more than the reference the policy prefers the chosen answer.
LossAndSlope value_of(double margin, const PairLossForm& form) {
  const double b = form.beta, e = form.smoothing, x = b * margin;
  switch (form.kind) {
    case PairLoss::sigmoid:
      return {-(1 - e) * log_sigmoid(x) - e * log_sigmoid(-x), b * (e * sigmoid(x) - (1 - e) * sigmoid(-x))};
    case PairLoss::robust:
      return {(-(1 - e) * log_sigmoid(x) + e * log_sigmoid(-x)) / (1 - 2 * e),
              -b * ((1 - e) * sigmoid(-x) + e * sigmoid(x)) / (1 - 2 * e)};
    case PairLoss::ipo: {
      const double off = margin - 1 / (2 * b);
      return {off * off, 2 * off};
    }
    case PairLoss::hinge:
      return {std::max(0.0, 1 - x), x < 1 ? -b : 0};
    case PairLoss::sigmoid_norm:
      return {-log_sigmoid(x), -b * sigmoid(-x)};
  }
  return {};
}

}  // namespace

PairScore pair_loss(const AnswerScore& chosen, const AnswerScore& rejected, const PairLossForm& form) {
  assert(form.beta > 0 && chosen.ids > 0 && rejected.ids > 0);
  const bool by_id = form.kind == PairLoss::ipo || form.kind == PairLoss::sigmoid_norm;
  const auto weight = [&](const AnswerScore& answer) { return by_id ? 1 / static_cast<double>(answer.ids) : 1.0; };
  const auto gain = [](const AnswerScore& answer) { return answer.policy - answer.reference; };
  const LossAndSlope value = value_of(weight(chosen) * gain(chosen) - weight(rejected) * gain(rejected), form);
  return {.loss = value.loss,
          .by_chosen = value.slope * weight(chosen),
          .by_rejected = -value.slope * weight(rejected),
          .chosen_reward = form.beta * gain(chosen),
          .rejected_reward = form.beta * gain(rejected)};
}

}  // namespace trireme
