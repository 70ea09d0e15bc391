// Batches of packed conversations, and the loss over them: against each conversation alone in float64, and over every
// layout of ranks, which are threads.

#include "train/sft/batches.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "tests/train/sft/chat_training.h"

namespace trireme::chat_training {
namespace {

using testing::ElementsAre;

template <class T>
std::vector<T> values(ConstView view) {
  const auto* begin = view.as<T>();
  return {begin, begin + view.count()};
}

TEST(ChatPacker, KeepsConversationsOfARowApart) {
  chat::CodedIds two;
  two.add(std::vector<int32_t>{1, ~2, 3, ~4});
  two.add(std::vector<int32_t>{~5, ~6});
  const chat::TrainingRows rows = chat::make_rows(two, 8, true);
  ChatPacker packer;
  const std::vector<uint32_t> first{0};
  const Batch& batch = packer.pack(rows, first, 100);
  EXPECT_THAT(values<int32_t>(batch.tokens), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(values<int32_t>(batch.targets), ElementsAre(2, -1, 4, -1, 6, -1));
  EXPECT_THAT(values<int32_t>(batch.positions), ElementsAre(0, 1, 2, 3, 0, 1));
  EXPECT_THAT(values<int32_t>(batch.offsets), ElementsAre(0, 4, 6));
  EXPECT_THAT(values<int64_t>(batch.samples), ElementsAre(100, 100, 100, 100, 101, 101));
  EXPECT_EQ(counted_rows(batch), rows.counted[0]);
}

TEST(ChatBatches, TakeEveryRowOnceInAnEpochAndShareThemOut) {
  const chat::TrainingRows rows = rows_of();
  const auto count = std::ssize(rows.rows);
  ASSERT_EQ(count % 4, 3) << "the last step of an epoch is short, and a micro-batch of it without rows";
  std::map<int64_t, int> seen;  // rows of ids by rank and micro-batch
  std::map<int64_t, std::set<int64_t>> longest;
  int64_t ids = 0;
  double counted = 0, globally = 0;
  for (int rank = 0; rank < 2; ++rank) {
    ChatBatches batches(rows, {.global = 4, .micro_batches = 2, .sequence = kRow, .ranks = 2, .rank = rank}, 9);
    for (int64_t first = 0; first < count; first += 4) {
      const StepPart step = batches.part(static_cast<uint64_t>(first));
      if (rank == 0) globally += step.counted.value();
      ASSERT_EQ(step.micro_batches(), 2);
      for (int64_t m = 0; m < 2; ++m) {
        const Batch& batch = batches.fill(step, m, 0);
        counted += counted_rows(batch);
        EXPECT_EQ(batch.rows(), step.rows[static_cast<size_t>(m)]);
        longest[first].insert(batch.longest);
        ids += batch.rows();
        for (const int64_t sample : values<int64_t>(batch.samples)) ++seen[sample];
      }
    }
  }
  for (const auto& [first, lengths] : longest) EXPECT_EQ(lengths.size(), 1u) << "of all ranks and micro-batches";
  EXPECT_EQ(ids, rows.ids());
  EXPECT_EQ(counted, rows.counted_ids());
  EXPECT_EQ(globally, rows.counted_ids());
  for (size_t one = 0; one < rows.conversations.size(); ++one)
    EXPECT_EQ(seen[static_cast<int64_t>(one)], std::ssize(rows.kept(one))) << one;
}

TEST(ChatBatches, ShuffleEveryEpochAnewAndNumberItsConversationsAnew) {
  const chat::TrainingRows rows = rows_of();
  const auto count = static_cast<uint64_t>(rows.rows.size());
  const BatchShape all{.global = std::ssize(rows.rows), .micro_batches = 1, .sequence = kRow, .ranks = 1, .rank = 0};
  ChatBatches shuffled(rows, all, 9), plain(rows, all, std::nullopt);
  const auto fill = [](ChatBatches& of, uint64_t consumed) -> const Batch& { return of.fill(of.part(consumed), 0, 0); };
  const auto first = values<int32_t>(fill(shuffled, 0).tokens), second = values<int32_t>(fill(shuffled, count).tokens);
  EXPECT_NE(first, second);
  EXPECT_EQ(values<int32_t>(fill(shuffled, 0).tokens), first);
  EXPECT_EQ(values<int32_t>(fill(plain, 0).tokens), values<int32_t>(fill(plain, count).tokens));
  const auto samples = values<int64_t>(fill(shuffled, count).samples);
  EXPECT_EQ(std::ranges::min(samples), std::ssize(rows.conversations.offsets) - 1);
}

TEST(ChatBatches, KeepABatchUntilItsSlotIsFilledAgain) {
  const chat::TrainingRows rows = rows_of();
  ChatBatches batches(rows, {.global = 4, .micro_batches = 2, .sequence = kRow, .ranks = 1, .rank = 0}, 9);
  const StepPart step = batches.part(0);
  const Batch& first = batches.fill(step, 0, 0);
  const auto tokens = values<int32_t>(first.tokens);
  const Batch& second = batches.fill(step, 1, 1);
  EXPECT_EQ(values<int32_t>(first.tokens), tokens);
  EXPECT_NE(values<int32_t>(second.tokens), tokens);
  EXPECT_EQ(&batches.fill(step, 1, 0), &first);
  EXPECT_NE(values<int32_t>(first.tokens), tokens);
}

/// The mean loss over what counts in the loss of all conversations, each alone, from the logits in float64.
double independent_loss(Position position) {
  const Spec spec = spec_of(position);
  const chat::CodedIds all = conversations();
  double sum = 0, counted = 0;
  run_local(1, [&](RankContext& rank) {
    const Backend backend = make_backend();
    const ParameterTable table(spec);
    TrainingState state(table, DType::f32, true);
    initialize(state, table, 5);
    const std::unique_ptr<Session> made = Session::make({.spec = spec,
                                                         .dtype = DType::f32,
                                                         .shape = {.rows = kRow},
                                                         .mesh = {1, 1, 1},
                                                         .optimizer = OptimizerOptions()},
                                                        table, state, *backend.ops, rank);
    Session& session = *made;
    for (size_t one = 0; one < all.size(); ++one) {
      const std::span<const int32_t> codes = all.at(one);
      const auto length = std::ssize(codes);
      std::vector<int32_t> tokens, positions, types(codes.size(), 0), offsets{0, static_cast<int32_t>(length)};
      for (const int32_t code : codes) {
        positions.push_back(static_cast<int32_t>(tokens.size()));
        tokens.push_back(chat::id_of(code));
      }
      std::vector<int64_t> samples(codes.size(), 0);
      Batch batch;
      batch.tokens = View(std::span(tokens), {length});
      batch.positions = View(std::span(positions), {length});
      batch.types = View(std::span(types), {length});
      batch.samples = View(std::span(samples), {length});
      batch.offsets = View(std::span(offsets), {2});
      std::vector<float> logits(static_cast<size_t>(length * spec.vocabulary_rows));
      session.stage().logits(batch, View(std::span(logits), {length, spec.vocabulary_rows}));
      for (int64_t i = 0; i + 1 < length; ++i) {
        const int32_t next = codes[static_cast<size_t>(i) + 1];
        if (next >= 0) continue;
        const float* row = &logits[static_cast<size_t>(i * spec.vocabulary_rows)];
        double total = 0;
        for (int64_t id = 0; id < spec.vocabulary; ++id) total += std::exp(static_cast<double>(row[id]));
        sum += std::log(total) - static_cast<double>(row[~next]);
        ++counted;
      }
    }
  });
  return sum / counted;
}

TEST(ChatLoss, IsTheMeanOverAllThatCountsOfEachConversationAlone) {
  for (const Position position : {Position::learned, Position::rotary}) {
    const double want = independent_loss(position);
    for (const bool packs : {true, false}) {
      const Outcome got = train({.packs = packs, .position = position}, false);
      EXPECT_NEAR(got.evaluation, want, 2e-6) << packs;
    }
  }
}

TEST(ChatLoss, OfAStepIsTheMeanOverItsIdsWithEqualWeights) {
  // Without learning, the losses of an epoch's steps and what they count give the mean over all.
  const chat::TrainingRows rows = rows_of();
  const Outcome got = train({}, false);
  ChatBatches batches(rows, {.global = kGlobal, .micro_batches = 1, .sequence = kRow, .ranks = 1, .rank = 0}, 9);
  double sum = 0, counted = 0;
  for (size_t i = 0; i < got.losses.size() / 2; ++i) {
    const double count = batches.part(i * kGlobal).counted.value();
    sum += count * got.losses[i];
    counted += count;
  }
  EXPECT_EQ(counted, rows.counted_ids());
  EXPECT_NEAR(sum / counted, got.evaluation, 1e-6);
}

TEST(ChatLoss, IsThatOfAHeadThatComputesAllRows) {
  ChatPacker packer;
  const chat::TrainingRows rows = rows_of();
  const std::vector<uint32_t> which{0, 1};
  const Batch& batch = packer.pack(rows, which, 0);
  ASSERT_LT(batch.counted.rows(), batch.rows() - 3);
  for (int64_t i = 0; i < batch.counted.rows(); ++i)
    EXPECT_EQ(batch.targets.as<int32_t>()[batch.counted.as<int32_t>()[i]], batch.counted_targets.as<int32_t>()[i]);
  EXPECT_EQ(batch.counted.rows(), counted_rows(batch));
  for (const NormKind norm : {NormKind::layer, NormKind::rms}) {
    for (const MeshShape& mesh : {MeshShape{1, 1, 1}, MeshShape{1, 2, 1}, MeshShape{1, 1, 2}})
      expect_near(train({.mesh = mesh, .micro = 2, .norm = norm}),
                  train({.mesh = mesh, .micro = 2, .norm = norm, .all_rows = true}), fmt::format("{}", mesh.tensor));
  }
}

TEST(ChatLoss, IsTheSameForEveryLayoutOfRanks) {
  for (const bool dropout : {false, true}) {
    const Outcome want = train({.dropout = dropout});
    EXPECT_LT(want.evaluation, train({.dropout = dropout}, false).evaluation) << "the loss did not fall";
    const struct {
      const char* name;
      Layouts layouts;
    } cases[] = {
        {"one row per micro-batch", {.micro = 1}},
        {"2 data ranks", {.mesh = {2, 1, 1}, .micro = 1}},
        {"4 data ranks, of which some have no row in the last step", {.mesh = {4, 1, 1}, .micro = 1}},
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
      one.dropout = dropout;
      expect_near(train(one), want, name);
    }
  }
}

}  // namespace
}  // namespace trireme::chat_training
