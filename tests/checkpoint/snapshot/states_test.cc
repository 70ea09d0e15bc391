// Update rules that keep other states than AdamW's: in memory, in snapshots, on any layout.

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/snapshot/manifest.h"
#include "optim/optimizer.h"
#include "optim/parameter_hash.h"
#include "tests/checkpoint/small_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/layouts.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

std::span<const StateKind> other_states(UpdateRule rule) {
  static constexpr StateKind kMatrix[] = {{kAdamM}, {"row.v", StateExtent::row}}, kVector[] = {{"plain"}};
  if (rule == UpdateRule::frozen) return {};
  return rule == UpdateRule::adamw ? std::span<const StateKind>(kMatrix) : kVector;
}

ParameterTable table_of(const Layout& layout, const Trained& trained = {}) {
  return ParameterTable(small_spec(), InitScheme::gpt2, layout, trained, other_states);
}

/// Values of a state of what a table has of a parameter: each is a function of its place in the complete tensor.
std::vector<float> values_of_all(const Parameter& parameter, const StateKind& kind) {
  const Box own = kind.extent == StateExtent::element ? parameter.stored()
                                                      : Box{{parameter.box.begin[0]}, {parameter.stored_shape[0]}};
  std::vector<float> values(static_cast<size_t>(own.elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    const Shape index = index_at(own, static_cast<int64_t>(i));
    const int64_t place =
        kind.extent == StateExtent::element ? offset_of(whole_box(parameter.global_shape), index) : index[0];
    values[i] = static_cast<float>(parameter_key(parameter.name + std::string(kind.name)) % 1000) * 1000 +
                static_cast<float>(place + 1);
  }
  return values;
}

/// A rank's part of the run: its layout, and of the data ranks the one that it is.
struct Part {
  Part(const Layout& layout, ShardChoice shard, int ranks, int rank, DType dtype)
      : table(table_of(layout, {"", "block.0.mlp"})), state(table, dtype, true, kept(shard, ranks, rank)) {}

  KeptState kept(ShardChoice shard, int ranks, int rank) const {
    OptimizerOptions options;
    options.shard = shard;
    options.bucket_bytes = 400;
    return kept_states(table, options, ranks, rank);
  }
  void fill() {
    initialize(state, table, 7);
    for (const Parameter& parameter : table.all()) {
      for (const StateKind& kind : parameter.states)
        state.write_state(kind.name, parameter, 0, values_of_all(parameter, kind));
    }
  }
  /// The number of values that are right; each value that is here must be.
  int64_t expect_filled() const {
    int64_t count = 0;
    for (const Parameter& parameter : table.all()) {
      for (const StateKind& kind : parameter.states) {
        const std::vector<float> want = values_of_all(parameter, kind);
        std::vector<float> got(want.size(), -1);
        state.read_state(kind.name, parameter, 0, got);
        for (size_t i = 0; i < want.size(); ++i) {
          if (!state.keeps_some(kind.name, parameter, static_cast<int64_t>(i), 1)) continue;
          EXPECT_EQ(got[i], want[i]) << parameter.name << ", " << kind.name << " " << i;
          ++count;
        }
      }
    }
    return count;
  }

  ParameterTable table;
  TrainingState state;
};

struct Way {
  int tensor = 1, pipeline = 1, data = 1;
  ShardChoice shard = ShardChoice::none;

  std::string text() const {
    return fmt::format("{} x {} x {}, shard {}", tensor, pipeline, data, static_cast<int>(shard));
  }
  template <class Run>
  void on_each(DType dtype, Run run) const {
    const std::vector<Layout> layouts = layouts_of(small_spec(), tensor, pipeline, data);
    run_local(static_cast<int>(layouts.size()), [&](RankContext& rank) {
      const auto own = static_cast<size_t>(rank.rank());
      Part part(layouts[own], shard, data, tensor * pipeline == 1 ? rank.rank() : 0, dtype);
      run(rank, part);
    });
  }
};

constexpr Way kWays[] = {{},
                         {.tensor = 2},
                         {.pipeline = 2},
                         {.tensor = 2, .pipeline = 2, .data = 2},
                         {.data = 3},
                         {.data = 2, .shard = ShardChoice::optimizer},
                         {.data = 3, .shard = ShardChoice::gradients},
                         {.data = 4, .shard = ShardChoice::parameters}};

TEST(States, OfAnyShapeGoFromEveryLayoutToEveryOther) {
  for (const Way& from : kWays) {
    const TemporaryFolder folder;
    const DType dtype = from.tensor > 1 ? DType::bf16 : DType::f32;
    from.on_each(dtype, [&](RankContext& rank, Part& part) {
      part.fill();
      CheckpointWriter writer(folder.path(), part.table, part.state, rank.world);
      writer.begin(facts_of(small_spec(), 5));
      writer.publish(0);
    });
    EXPECT_TRUE(verify_checkpoint(folder / step_name(5)).empty());
    for (const Way& to : kWays) {
      SCOPED_TRACE(from.text() + " -> " + to.text());
      std::atomic<int64_t> values = 0;
      to.on_each(dtype, [&](RankContext&, Part& part) {
        load_checkpoint(open_checkpoint(folder.path()), part.table, part.state);
        values += part.expect_filled();
      });
      if (to.shard == ShardChoice::none) continue;
      int64_t all = 0;
      const ParameterTable table = table_of({}, {"", "block.0.mlp"});
      for (const Parameter& parameter : table.all())
        for (const StateKind& kind : parameter.states) all += std::ssize(values_of_all(parameter, kind));
      EXPECT_EQ(values, all) << "each value is on one rank";
    }
  }
}

TEST(States, TakeTheMemoryOfWhatTheRulesKeep) {
  const ParameterTable adam(small_spec()), other = table_of({});
  const size_t weights = TrainingState::bytes_for(adam, DType::f32, false);
  const size_t with_adam = TrainingState::bytes_for(adam, DType::f32, true) - weights,
               with_other = TrainingState::bytes_for(other, DType::f32, true) - weights;
  EXPECT_LT(with_other, with_adam);
  TrainingState state(other, DType::f32, true);
  EXPECT_EQ(state.bytes(), TrainingState::bytes_for(other, DType::f32, true));
  ASSERT_EQ(state.states().size(), 3u);
  EXPECT_EQ(state.replicated().size(), 5u) << "weights, remainders and each state are copied to a healed replica";
  EXPECT_LT(state.state("row.v").count(), state.state(kAdamM).count());
  EXPECT_TRUE(state.state(kAdamV).empty());
}

TEST(States, OfAnotherOptimizerAreRefusedWhereARunResumesAndNotWhereOnlyWeightsAreRead) {
  const TemporaryFolder folder;
  Way{}.on_each(DType::f32, [&](RankContext& rank, Part& part) {
    part.fill();
    CheckpointWriter writer(folder.path(), part.table, part.state, rank.world);
    writer.begin(facts_of(small_spec(), 5));
    writer.publish(0);
  });
  const CheckpointFolder opened = open_checkpoint(folder.path());
  const ParameterTable adam(small_spec(), InitScheme::gpt2, {}, {"", "block.0.mlp"});
  TrainingState state(adam, DType::f32, true);
  EXPECT_ERROR(load_checkpoint(opened, adam, state), ErrorKind::data, ".adam.v is missing; resuming a run needs it");
  TrainingState weights(adam, DType::f32, false);
  load_weights(opened, adam, weights);
  const TemporaryFolder plain;
  save(plain.path(), adam, state, facts_of(small_spec(), 5));
  static constexpr StateKind kNone[] = {{kAdamM}};
  const ParameterTable less(small_spec(), InitScheme::gpt2, {}, {"", "block.0.mlp"}, [](UpdateRule rule) {
    return rule == UpdateRule::frozen ? std::span<const StateKind>() : kNone;
  });
  TrainingState of_less(less, DType::f32, true);
  EXPECT_ERROR(load_checkpoint(open_checkpoint(plain.path()), less, of_less), ErrorKind::data,
               ".adam.v: another optimizer or a newer version has written it");
}

}  // namespace
}  // namespace trireme
