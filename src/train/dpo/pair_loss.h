#pragma once
// The loss of a pair of answers of which one is preferred (direct preference optimisation). Pure functions.

#include <cstdint>

#include "config/choices.h"

namespace trireme {

struct PairLossForm {
  PairLoss kind = PairLoss::sigmoid;
  double beta = 0.1;     ///< above 0
  double smoothing = 0;  ///< 0 to below 0.5; read by sigmoid and robust
};

/// The log-probability of an answer after its prompt, in nats: the sum over its ids.
struct AnswerScore {
  double policy = 0;     ///< of the model that is trained
  double reference = 0;  ///< of the model that the training starts from
  int64_t ids = 1;       ///< at least 1
};

struct PairScore {
  double loss = 0;
  double by_chosen = 0, by_rejected = 0;          ///< derivatives of the loss by the policy's log-probabilities
  double chosen_reward = 0, rejected_reward = 0;  ///< beta x (policy - reference)
};

/// See PairLoss for the formulas.
PairScore pair_loss(const AnswerScore& chosen, const AnswerScore& rejected, const PairLossForm& form);

}  // namespace trireme
