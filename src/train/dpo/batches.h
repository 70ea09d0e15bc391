#pragma once
// The batches of steps over pairs of answers, with a loss of each answer's log-probability.

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "config/choices.h"
#include "report/metrics.h"
#include "train/sft/batches.h"

namespace trireme {

// The loss of a pair of answers of which one is preferred (direct preference optimisation). Pure functions.

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

/// What is reported of pairs: sums over them.
class PairSums {
 public:
  void add(const PairScore& score, double chosen, double rejected);
  /// For sums over ranks.
  std::span<double> values() { return sums_; }
  /// Means, by TRL's names: rewards/chosen, rewards/rejected, rewards/margins, rewards/accuracies (the share of pairs
  /// whose chosen answer has the higher reward), logps/chosen, logps/rejected. Empty without pairs.
  NamedValues means() const;

 private:
  enum Place : uint8_t { kPairs, kChosenReward, kRejectedReward, kRight, kChosen, kRejected, kCount };
  std::array<double, kCount> sums_{};
};

/// A sample is a pair: the conversations 2 i and 2 i + 1 of the rows, the chosen one first (chat::make_pairs()). As
/// ChatBatches, but batches have a SequenceLoss, and what counts is pairs.
class PairBatches final : public StepBatches {
 public:
  /// Makes the loss of a micro-batch. conversations: numbers of its sequences.
  using MakeLoss = std::function<std::unique_ptr<SequenceLoss>(std::vector<size_t> conversations)>;
  /// Borrows the rows. shape.global: pairs per step. seed: as ChatBatches.
  PairBatches(const chat::TrainingRows& pairs, const BatchShape& shape, std::optional<uint64_t> seed, MakeLoss make);

  StepPart part(uint64_t consumed) override;
  const Batch& fill(const StepPart& step, int64_t index, size_t slot) override;

 private:
  struct Kept {
    Batch batch;
    std::unique_ptr<SequenceLoss> loss;
  };
  const chat::TrainingRows& pairs_;
  ChatBatches batches_;
  MakeLoss make_;
  std::deque<Kept> kept_;  ///< of each slot
};

/// The loss of pairs beside a reference. references: log-probability of every conversation; sums: get every pair.
/// Borrows both.
PairBatches::MakeLoss preference_loss(const PairLossForm& form, std::span<const double> references, PairSums& sums);

/// Not a loss, but the log-probabilities: value() writes them to their conversations' places of `out` and is 0. Borrows
/// out.
PairBatches::MakeLoss record_scores(std::span<double> out);

}  // namespace trireme
