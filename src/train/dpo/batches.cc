#include "train/dpo/batches.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace trireme {
namespace {

class PreferenceLoss final : public SequenceLoss {
 public:
  PreferenceLoss(const PairLossForm& form, std::span<const double> references, PairSums& sums,
                 std::vector<size_t> conversations)
      : form_(form), references_(references), sums_(sums), conversations_(std::move(conversations)) {}
  double samples() const override { return static_cast<double>(conversations_.size()) / 2; }
  double value(std::span<const double> cross_entropies, std::span<double> derivatives) const override {
    double sum = 0;
    for (size_t i = 0; i + 1 < conversations_.size(); i += 2) {
      const AnswerScore chosen = answer(i, cross_entropies), rejected = answer(i + 1, cross_entropies);
      const PairScore score = pair_loss(chosen, rejected, form_);
      sum += score.loss;
      sums_.add(score, chosen.policy, rejected.policy);
      if (derivatives.empty()) continue;
      derivatives[i] = -score.by_chosen;
      derivatives[i + 1] = -score.by_rejected;
    }
    return sum;
  }

 private:
  AnswerScore answer(size_t sequence, std::span<const double> cross_entropies) const {
    return {.policy = -cross_entropies[sequence],
            .reference = references_[conversations_[sequence]],
            .ids = counted_offsets[sequence + 1] - counted_offsets[sequence]};
  }

  PairLossForm form_;
  std::span<const double> references_;
  PairSums& sums_;
  std::vector<size_t> conversations_;
};

class ScoreRecorder final : public SequenceLoss {
 public:
  ScoreRecorder(std::span<double> out, std::vector<size_t> conversations)
      : out_(out), conversations_(std::move(conversations)) {}
  double samples() const override { return static_cast<double>(conversations_.size()) / 2; }
  double value(std::span<const double> cross_entropies, std::span<double> derivatives) const override {
    std::ranges::fill(derivatives, 0);
    for (size_t i = 0; i < conversations_.size(); ++i) out_[conversations_[i]] = -cross_entropies[i];
    return 0;
  }

 private:
  std::span<double> out_;
  std::vector<size_t> conversations_;
};

}  // namespace

void PairSums::add(const PairScore& score, double chosen, double rejected) {
  sums_[kPairs] += 1;
  sums_[kChosenReward] += score.chosen_reward;
  sums_[kRejectedReward] += score.rejected_reward;
  sums_[kRight] += score.chosen_reward > score.rejected_reward ? 1 : 0;
  sums_[kChosen] += chosen;
  sums_[kRejected] += rejected;
}

NamedValues PairSums::means() const {
  const double pairs = sums_[kPairs];
  if (pairs == 0) return {};
  return {{"rewards/chosen", sums_[kChosenReward] / pairs},
          {"rewards/rejected", sums_[kRejectedReward] / pairs},
          {"rewards/margins", (sums_[kChosenReward] - sums_[kRejectedReward]) / pairs},
          {"rewards/accuracies", sums_[kRight] / pairs},
          {"logps/chosen", sums_[kChosen] / pairs},
          {"logps/rejected", sums_[kRejected] / pairs}};
}

PairBatches::PairBatches(const chat::TrainingRows& pairs, const BatchShape& shape, std::optional<uint64_t> seed,
                         MakeLoss make)
    : pairs_(pairs), batches_(pairs, shape, seed), make_(std::move(make)) {}

StepPart PairBatches::part(uint64_t consumed) {
  StepPart step = batches_.part(consumed);
  step.counted = static_cast<double>(step.samples);
  return step;
}

const Batch& PairBatches::fill(const StepPart& step, int64_t index, size_t slot) {
  Kept& kept = builder_of(kept_, slot);
  kept.batch = batches_.fill(step, index, slot);
  const auto offsets = kept.batch.offsets.values<int32_t>(), counted = kept.batch.counted.values<int32_t>();
  const auto samples = kept.batch.samples.values<int64_t>();
  std::vector<size_t> conversations;
  std::vector<int32_t> counted_offsets;
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    const auto sample = static_cast<size_t>(samples[static_cast<size_t>(offsets[s])]);
    conversations.push_back(sample % pairs_.conversations.size());  // their numbers begin again in every epoch
  }
  for (const int32_t first : offsets)
    counted_offsets.push_back(static_cast<int32_t>(std::ranges::lower_bound(counted, first) - counted.begin()));
  kept.loss = make_(std::move(conversations));
  kept.loss->offsets.assign(offsets.begin(), offsets.end());
  kept.loss->counted_offsets = std::move(counted_offsets);
  kept.batch.sequence_loss = kept.loss.get();
  return kept.batch;
}

PairBatches::MakeLoss preference_loss(const PairLossForm& form, std::span<const double> references, PairSums& sums) {
  return [=, &sums](std::vector<size_t> conversations) {
    return std::make_unique<PreferenceLoss>(form, references, sums, std::move(conversations));
  };
}

PairBatches::MakeLoss record_scores(std::span<double> out) {
  return
      [=](std::vector<size_t> conversations) { return std::make_unique<ScoreRecorder>(out, std::move(conversations)); };
}

}  // namespace trireme
