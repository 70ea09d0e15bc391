// Steps over pairs of answers on ranks as threads: the same losses, gradients and measures for every layout.

#include "train/dpo/batches.h"

#include <gmock/gmock.h>

#include "tests/train/sft/chat_training.h"

namespace trireme::chat_training {
namespace {

using testing::ElementsAre;

TEST(PairBatches, HaveAPairsAnswersBehindEachOtherWithTheirCountedRows) {
  chat::CodedIds two;
  two.add(std::vector<int32_t>{1, 2, ~3, ~4});
  two.add(std::vector<int32_t>{1, 2, ~5});
  const chat::TrainingRows rows = chat::make_pairs(two, 8);
  std::vector<size_t> seen;
  std::vector<double> scores(2);
  PairBatches batches(rows, {.global = 1, .micro_batches = 1, .sequence = 8, .ranks = 1, .rank = 0}, std::nullopt,
                      [&](std::vector<size_t> conversations) {
                        seen = conversations;
                        return record_scores(scores)(std::move(conversations));
                      });
  EXPECT_THAT(batches.part(0).rows, ElementsAre(7));
  EXPECT_EQ(batches.part(0).counted, 1);
  const Batch& batch = batches.fill(batches.part(1), 0, 0);  // the second epoch
  EXPECT_THAT(seen, ElementsAre(0U, 1U));
  EXPECT_EQ(loss_terms(batch), 1);
  ASSERT_NE(batch.sequence_loss, nullptr);
  EXPECT_THAT(batch.sequence_loss->offsets, ElementsAre(0, 4, 7));
  EXPECT_THAT(batch.sequence_loss->counted_offsets, ElementsAre(0, 2, 3));
  const std::vector<double> entropies{3.5, 0.25};
  EXPECT_EQ(batch.sequence_loss->value(entropies, {}), 0);
  EXPECT_THAT(scores, ElementsAre(-3.5, -0.25));
}

TEST(PairBatches, TakeEveryPairOnceInAnEpoch) {
  const chat::TrainingRows rows = pairs_of();
  ASSERT_EQ(rows.size(), 17U);
  std::vector<int> seen(34, 0);
  double pairs = 0;
  for (int rank = 0; rank < 2; ++rank) {
    PairBatches batches(rows, {.global = 4, .micro_batches = 2, .sequence = kRow, .ranks = 2, .rank = rank}, 9,
                        [&](std::vector<size_t> conversations) {
                          for (const size_t one : conversations) ++seen[one];
                          return record_scores({})(std::move(conversations));
                        });
    for (uint64_t first = 0; first < 17; first += 4) {
      const StepPart step = batches.part(first);
      if (rank == 0) pairs += step.counted.value();
      for (int64_t m = 0; m < 2; ++m) (void)batches.fill(step, m, 0);
    }
  }
  EXPECT_EQ(pairs, 17);
  EXPECT_THAT(seen, testing::Each(1));
}

TEST(PreferenceLoss, IsTheMeanOverPairsOfThePureFunctionOfTheirScores) {
  const chat::TrainingRows rows = pairs_of();
  const std::vector<double> reference = references();
  std::vector<double> scores(34, 0);
  const Spec spec = spec_of(Position::rotary);
  run_local(1, [&](RankContext& rank) {
    const Backend backend = make_backend();
    const ParameterTable table(spec);
    TrainingState state(table, DType::f32, true);
    initialize(state, table, 5);
    const BatchShape shape{.global = 4, .micro_batches = 2, .sequence = kRow, .ranks = 1, .rank = 0};
    const std::unique_ptr<Session> made =
        Session::make({.spec = spec,
                       .dtype = DType::f32,
                       .shape = {.rows = 4 * kRow, .head_rows = 5, .scored_sequences = 4},
                       .mesh = {1, 1, 1},
                       .optimizer = OptimizerOptions()},
                      table, state, *backend.ops, rank);
    Session& session = *made;
    PairBatches recorded(rows, shape, std::nullopt, record_scores(scores));
    (void)evaluate(session, recorded, 5, 4);
    for (const Named<PairLoss>& kind : Names<PairLoss>::kAll) {
      const PairLossForm form{kind.value, 0.3, kind.value == PairLoss::robust ? 0.1 : 0.0};
      PairSums sums;
      PairBatches measured(rows, shape, std::nullopt, preference_loss(form, reference, sums));
      double want = 0, right = 0;
      for (size_t i = 0; i < 34; i += 2) {
        const auto answer = [&](size_t one) {
          int64_t ids = 0;
          for (const int32_t code : rows.kept(one).subspan(1)) ids += chat::is_counted(code) ? 1 : 0;
          return AnswerScore{scores[one], reference[one], ids};
        };
        const PairScore score = pair_loss(answer(i), answer(i + 1), form);
        want += score.loss / 17;
        right += score.chosen_reward > score.rejected_reward ? 1.0 / 17 : 0;
      }
      EXPECT_NEAR(evaluate(session, measured, 5, 4).value(), want, 1e-6 * want) << kind.name;
      const NamedValues means = sums.means();
      ASSERT_EQ(means.size(), 6U);
      EXPECT_EQ(means[3].first, "rewards/accuracies");
      EXPECT_NEAR(means[3].second, right, 1e-12);
      EXPECT_NEAR(means[2].second, means[0].second - means[1].second, 1e-12);
    }
  });
}

TEST(PreferenceLoss, LearnsAndIsTheSameForEveryLayoutOfRanks) {
  for (const PairLoss kind : {PairLoss::sigmoid, PairLoss::ipo}) {
    const PairLossForm form{kind, 0.3, 0};
    const Outcome want = train({.pairs = form});
    EXPECT_LT(want.evaluation, 0.9 * train({.pairs = form}, false).evaluation) << "the loss did not fall";
    ASSERT_EQ(want.measures.size(), 12U);
    const struct {
      const char* name;
      Layouts layouts;
    } cases[] = {
        {"one pair per micro-batch", {.micro = 1}},
        {"a head that computes all rows", {.micro = 2, .all_rows = true}},
        {"2 data ranks", {.mesh = {2, 1, 1}, .micro = 1}},
        {"4 data ranks, of which some have no pair in the last step", {.mesh = {4, 1, 1}, .micro = 1}},
        {"2 tensor ranks", {.mesh = {1, 2, 1}, .micro = 2}},
        {"2 tensor ranks, sequence parallel", {.mesh = {1, 2, 1}, .micro = 2, .sequence_parallel = true}},
        {"2 stages", {.mesh = {1, 1, 2}, .micro = 1}},
        {"2 x 2 x 1", {.mesh = {2, 2, 1}, .micro = 1}},
        {"2 x 1 x 2", {.mesh = {2, 1, 2}, .micro = 1}},
        {"1 x 2 x 2", {.mesh = {1, 2, 2}, .micro = 1}},
        {"sharded optimizer", {.mesh = {2, 1, 1}, .micro = 1, .shard = ShardChoice::optimizer}},
        {"sharded gradients", {.mesh = {2, 1, 1}, .micro = 1, .shard = ShardChoice::gradients}},
        {"sharded parameters", {.mesh = {4, 1, 1}, .micro = 1, .shard = ShardChoice::parameters}},
    };
    for (const auto& [name, layouts] : cases) {
      Layouts one = layouts;
      one.pairs = form;
      expect_near(train(one), want, name, 2e-5);
    }
  }
}

}  // namespace
}  // namespace trireme::chat_training
