#pragma once
// Steps over packed conversations or pairs of them on any layout of ranks, which are threads.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "model/mesh_layout.h"
#include "model/pipeline_order.h"
#include "tests/support/local_ranks.h"
#include "tests/support/tiny_model.h"
#include "train/dpo/batches.h"
#include "train/sft/batches.h"
#include "train/step.h"

namespace trireme::chat_training {

constexpr int64_t kRow = 12;
constexpr int kVocabulary = 13;

/// Conversations of 2 to 11 ids, some of which count in the loss.
inline chat::CodedIds conversations(uint64_t count = 17) {
  chat::CodedIds all;
  for (uint64_t n = 0; n < count; ++n) {
    RandomStream random(mix_key(3, n));
    std::vector<int32_t> codes(2 + random.below(10));
    for (int32_t& code : codes) {
      code = static_cast<int32_t>(random.below(kVocabulary));
      if (random.below(2) == 0) code = ~code;
    }
    if (!chat::is_counted(codes.back())) codes.back() = ~codes.back();
    all.add(codes);
  }
  return all;
}

inline chat::TrainingRows rows_of(bool packs = true) { return chat::make_rows(conversations(), kRow, packs); }

/// 17 pairs.
inline chat::TrainingRows pairs_of() { return chat::make_pairs(conversations(34), kRow); }
/// Log-probabilities by a model that there is not.
inline std::vector<double> references() {
  std::vector<double> all;
  for (size_t i = 0; i < 34; ++i) all.push_back(-8.0 - static_cast<double>(i % 5));
  return all;
}

inline Spec spec_of(Position position) {
  Spec spec = tiny_spec();
  spec.heads = 4;
  spec.layers = 2;
  spec.context = kRow;
  spec.position = position;
  if (position == Position::rotary) spec.rotary_dims = 4;
  return spec;
}

/// The same batches, without saying which rows count: the head computes all of them.
class AllRows final : public StepBatches {
 public:
  explicit AllRows(StepBatches& batches) : batches_(batches) {}
  StepPart part(uint64_t consumed) override { return batches_.part(consumed); }
  const Batch& fill(const StepPart& step, int64_t index, size_t slot) override {
    kept_.push_back(batches_.fill(step, index, slot));
    kept_.back().counted = kept_.back().counted_targets = {};
    return kept_.back();
  }

 private:
  StepBatches& batches_;
  std::deque<Batch> kept_;
};

struct Layouts {
  MeshShape mesh{1, 1, 1};
  int64_t micro = 4;  ///< rows of a micro-batch
  ShardChoice shard = ShardChoice::none;
  bool packs = true, dropout = false, sequence_parallel = false;
  Position position = Position::learned;
  NormKind norm = NormKind::layer;
  bool all_rows = false;  ///< the head computes those that do not count, too
  std::optional<PairLossForm> pairs = {};
  std::unique_ptr<Ops> (*make_ops)() = make_cpu_ops;
};

struct Outcome {
  std::vector<double> losses, norms;
  double evaluation = 0;
  std::vector<double> measures;  ///< of pairs: PairSums over all steps, then over the evaluation
};

constexpr int64_t kGlobal = 4;

/// Two epochs; the rate of the first steps is 0 where `learns` is false.
inline Outcome train(const Layouts& layouts, bool learns = true) {
  Spec spec = spec_of(layouts.position);
  spec.norm = layouts.norm;
  if (layouts.norm == NormKind::rms) spec.biases.norm = false;
  if (layouts.dropout) spec.embedding_dropout = spec.attention_dropout = spec.residual_dropout = 0.2F;
  const chat::TrainingRows rows = layouts.pairs ? pairs_of() : rows_of(layouts.packs);
  const std::vector<double> reference = references();
  const MeshShape mesh = layouts.mesh;
  Outcome outcome;
  std::mutex mutex;
  run_local(static_cast<int>(mesh.data * mesh.tensor * mesh.pipeline), [&](RankContext& rank) {
    const std::unique_ptr<Ops> ops = layouts.make_ops();
    const ParameterTable table(spec, InitScheme::gpt2, layout_of(spec, mesh, rank.rank()));
    const MeshPlace place = place_of(mesh, rank.rank());
    OptimizerOptions options;
    options.adamw.epsilon = 1e-3F;  // Adam's direction of a gradient near zero is not its sign
    options.wire = DType::f32;
    options.shard = layouts.shard;
    options.bucket_bytes = 4000;
    TrainingState state(table, DType::f32, true, kept_states(table, options, static_cast<int>(mesh.data), place.data));
    initialize(state, table, 5);
    const BatchShape shape{.global = kGlobal,
                           .micro_batches = (kGlobal / mesh.data + layouts.micro - 1) / layouts.micro,
                           .sequence = kRow,
                           .ranks = static_cast<int>(mesh.data),
                           .rank = place.data};
    const auto order = pipeline_order(place.pipeline, mesh.pipeline, mesh.chunks, shape.micro_batches);
    const std::unique_ptr<Session> made =
        Session::make({.spec = spec,
                       .dtype = DType::f32,
                       .shape = {.rows = shape.largest_micro() * kRow * (layouts.pairs ? 2 : 1),
                                 .head_rows = 5,
                                 .accumulates = !exchanges_every_micro_batch(options.shard, mesh.data),
                                 .chunk_slots = slots_of_chunks(order, mesh.chunks),
                                 .sequence_parallel = layouts.sequence_parallel,
                                 .scored_sequences = layouts.pairs ? 2 * shape.largest_micro() : 0},
                       .mesh = mesh,
                       .optimizer = options},
                      table, state, *ops, rank);
    Session& session = *made;
    ChatBatches batches(rows, shape, 9), measured(rows, shape, std::nullopt);
    PairSums sums, measured_sums;
    std::optional<PairBatches> pairs, measured_pairs;
    if (layouts.pairs) {
      pairs.emplace(rows, shape, 9, preference_loss(*layouts.pairs, reference, sums));
      measured_pairs.emplace(rows, shape, std::nullopt, preference_loss(*layouts.pairs, reference, measured_sums));
    }
    StepBatches& plain = pairs ? static_cast<StepBatches&>(*pairs) : batches;
    StepBatches& plain_measured = measured_pairs ? static_cast<StepBatches&>(*measured_pairs) : measured;
    AllRows all(plain), all_measured(plain_measured);
    StepBatches &used = layouts.all_rows ? static_cast<StepBatches&>(all) : plain,
                &used_measured = layouts.all_rows ? static_cast<StepBatches&>(all_measured) : plain_measured;
    TrainStep step(session, used, 7);
    const EpochPlan plan{std::ssize(rows.rows), kGlobal};
    std::vector<double> losses, norms;
    uint64_t consumed = 0;
    for (int64_t i = 0; i < 2 * plan.steps_per_epoch(); ++i) {
      const StepResult result = step.run({.step = i,
                                          .consumed = consumed,
                                          .update = i + 1,
                                          .learning_rate = learns ? 1e-2 : 0,
                                          .most_loss = std::numeric_limits<double>::infinity()});
      consumed += static_cast<uint64_t>(plan.at(consumed).count);
      losses.push_back(result.loss);
      norms.push_back(result.norm);
    }
    const double evaluation = evaluate(session, used_measured, plan.steps_per_epoch(), kGlobal).value();
    std::vector<double> measures;
    for (PairSums* one : {&sums, &measured_sums}) {
      if (!session.counts_loss()) std::ranges::fill(one->values(), 0);
      session.scalars().sum(one->values());
      for (const auto& [name, value] : one->means()) measures.push_back(value);
    }
    const std::lock_guard lock(mutex);
    if (outcome.losses.empty()) outcome = {losses, norms, evaluation, measures};
    EXPECT_EQ(outcome.losses, losses) << "rank " << rank.rank();
    EXPECT_EQ(outcome.norms, norms) << "rank " << rank.rank();
    EXPECT_EQ(outcome.evaluation, evaluation) << "rank " << rank.rank();
    EXPECT_EQ(outcome.measures, measures) << "rank " << rank.rank();
  });
  return outcome;
}

inline void expect_near(const Outcome& got, const Outcome& want, const std::string& what, double tolerance = 1e-5) {
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (size_t i = 0; i < want.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], want.losses[i], tolerance * want.losses[i]) << what << ", step " << i + 1;
    EXPECT_NEAR(got.norms[i], want.norms[i], 10 * tolerance * want.norms[i]) << what << ", step " << i + 1;
  }
  EXPECT_NEAR(got.evaluation, want.evaluation, tolerance * want.evaluation) << what;
  ASSERT_EQ(got.measures.size(), want.measures.size()) << what;
  for (size_t i = 0; i < want.measures.size(); ++i)
    EXPECT_NEAR(got.measures[i], want.measures[i], 10 * tolerance * std::max(1.0, std::abs(want.measures[i])))
        << what << ", measure " << i;
}

}  // namespace trireme::chat_training
