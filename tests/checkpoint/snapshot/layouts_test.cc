// Checkpoints of ranks that hold different parts of a model.

#include <filesystem>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/huggingface/huggingface.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/safetensors/safetensors.h"
#include "checkpoint/snapshot/manifest.h"
#include "optim/optimizer.h"
#include "tests/checkpoint/small_run.h"
#include "tests/support/cut_states.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

/// Each rank saves its layout's part of the state.
void save_in_parts(const std::string& run_dir, const std::vector<Layout>& layouts, const ParameterTable& whole,
                   const TrainingState& state) {
  run_local(static_cast<int>(layouts.size()), [&](RankContext& rank) {
    const ParameterTable table(whole.spec(), InitScheme::gpt2, layouts[static_cast<size_t>(rank.rank())],
                               whole.trained());
    TrainingState own(table, state.weights().dtype(), state.trains());
    copy_common(whole, state, table, own);
    CheckpointWriter writer(run_dir, table, own, rank.world);
    writer.begin(facts_of(whole.spec(), 5));
    writer.publish(0);
  });
}

/// What any layout saves every other loads.
void expect_every_layout_loads_every_other(const ParameterTable& whole) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    TrainingState state(whole, dtype, true);
    fill(state, whole, 3);
    const std::array<int, 3> meshes[] = {{1, 1, 1}, {1, 1, 3}, {2, 1, 1}, {1, 2, 1}, {2, 2, 1}, {2, 2, 2}, {2, 1, 3}};
    for (const auto& [tensor, pipeline, data] : meshes) {
      const TemporaryFolder folder;
      save_in_parts(folder.path(), layouts_of(small_spec(), tensor, pipeline, data), whole, state);
      EXPECT_TRUE(verify_checkpoint(folder / step_name(5)).empty());
      for (const auto& [t, p, d] : meshes) {
        for (const Layout& layout : layouts_of(small_spec(), t, p)) {
          const ParameterTable table(small_spec(), InitScheme::gpt2, layout, whole.trained());
          TrainingState expected(table, dtype, true), loaded(table, dtype, true);
          copy_common(whole, state, table, expected);
          std::memset(loaded.weights().data(), 0x11, loaded.weights().bytes());
          load_checkpoint(open_checkpoint(folder.path()), table, loaded);
          for (const Parameter& parameter : table.all()) {
            ASSERT_TRUE(same_bytes(view_of(loaded.weights(), parameter), view_of(expected.weights(), parameter)))
                << parameter.name << " of " << t << " x " << p << ", saved by " << tensor << " x " << pipeline << " x "
                << data;
            ASSERT_TRUE(same_bytes(gradient_of(loaded.state(kAdamM), parameter),
                                   gradient_of(expected.state(kAdamM), parameter)));
            ASSERT_TRUE(same_bytes(gradient_of(loaded.state(kAdamV), parameter),
                                   gradient_of(expected.state(kAdamV), parameter)));
          }
        }
      }
    }
  }
}

TEST(CheckpointLayouts, WhatAnyLayoutSavedEveryOtherLoads) {
  expect_every_layout_loads_every_other(ParameterTable(small_spec()));
}

TEST(CheckpointLayouts, WithFrozenParametersToo) {
  for (const char* freeze : {"embedding,block.0", "norm,block.1,*.bias"})
    expect_every_layout_loads_every_other(ParameterTable(small_spec(), InitScheme::gpt2, {}, {"", freeze}));
}

TEST(CheckpointLayouts, AFrozenParameterHasNoStoredStates) {
  const ParameterTable table(small_spec(), InitScheme::gpt2, {}, {"block.1.mlp", ""});
  TrainingState state(table, DType::f32, true);
  fill(state, table, 3);
  const TemporaryFolder folder;
  save(folder.path(), table, state, facts_of(small_spec(), 5), 1);
  const Manifest manifest = read_manifest(folder / step_name(5));
  for (const StoredParameter& parameter : manifest.parameters)
    EXPECT_EQ(parameter.states.empty(), !parameter.name.starts_with("block.1.mlp")) << parameter.name;
  // A run that trains everything cannot resume from it, one that trains less can.
  const ParameterTable all(small_spec()), less(small_spec(), InitScheme::gpt2, {}, {"block.1.mlp.in", ""});
  TrainingState everything(all, DType::f32, true), some(less, DType::f32, true);
  EXPECT_ERROR(load_checkpoint(open_checkpoint(folder.path()), all, everything), ErrorKind::data,
               "is missing; resuming a run needs it");
  load_checkpoint(open_checkpoint(folder.path()), less, some);
  const Parameter &from = table.find("block.1.mlp.in.weight"), &to = less.find("block.1.mlp.in.weight");
  EXPECT_TRUE(same_bytes(gradient_of(some.state(kAdamV), to), gradient_of(state.state(kAdamV), from)));
}

TEST(CheckpointLayouts, OfReplicasOneWritesAndAllShare) {
  const ParameterTable whole(small_spec());
  const std::vector<Layout> layouts = layouts_of(small_spec(), 2, 1, 2);
  const auto slices = plan_slices(whole, layouts, true);
  int64_t elements = 0;
  for (size_t rank = 0; rank < layouts.size(); ++rank) {
    const ParameterTable table(small_spec(), InitScheme::gpt2, layouts[rank]);
    int64_t own = 0;
    for (const Slice& slice : slices[rank]) {
      const Parameter& parameter = table.find(whole.all()[slice.parameter].name);
      EXPECT_EQ(overlap(slice.box, parameter.stored()), slice.box) << "a rank stores what it holds";
      own += slice.box.elements();
    }
    elements += own;
    EXPECT_NEAR(static_cast<double>(own), 3.0 * static_cast<double>(whole.total()) / 4, 3 * 4 * 24) << rank;
  }
  EXPECT_EQ(elements, 3 * whole.total());
}

TEST(CheckpointLayouts, AColumnCutIsStoredAsTheRanksContiguousBox) {
  const ParameterTable whole(small_spec());
  TrainingState state(whole, DType::f32, true);
  fill(state, whole, 3);
  const TemporaryFolder folder;
  save_in_parts(folder.path(), layouts_of(small_spec(), 2, 1), whole, state);
  const std::string name = "block.1.mlp.out.weight", step = folder / step_name(5);
  std::vector<float> all(8 * 24);
  state.read_master(whole.find(name), all);
  const Manifest manifest = read_manifest(step);
  for (size_t rank = 0; rank < 2; ++rank) {
    const SafetensorsFile shard(step + "/" + shard_name(static_cast<int>(rank), 2));
    const SafetensorsEntry* entry = shard.find(name);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->shape, (std::vector<int64_t>{8, 12}));
    const std::vector<float> values = shard.read_f32(*entry);
    for (size_t r = 0; r < 8; ++r) {
      for (size_t c = 0; c < 12; ++c) ASSERT_EQ(values[r * 12 + c], all[r * 24 + rank * 12 + c]);
    }
    EXPECT_TRUE(std::ranges::any_of(manifest.slices, [&](const StoredSlice& s) {
      return s.shard == rank && s.is_weight() && s.box == Box{{0, static_cast<int64_t>(rank) * 12}, {8, 12}};
    }));
  }
}

void expect_shared_states_are_saved_whole(const ParameterTable& table) {
  const std::vector<std::vector<int>> hosts{{}, {0, 0, 1, 1}, {0, 1, 1, 0}};
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const ShardChoice shard : {ShardChoice::optimizer, ShardChoice::parameters})
      for (const std::vector<int>& host_of : hosts) {
        SCOPED_TRACE(fmt::format("{}, shard {}, {} hosts", name_of(dtype), static_cast<int>(shard), host_of.size()));
        TrainingState state(table, dtype, true);
        fill(state, table, 3);
        const TemporaryFolder whole, shared;
        save(whole.path(), table, state, facts_of(small_spec(), 5), 1);
        run_local(4, [&](RankContext& rank) {
          OptimizerOptions options;
          options.shard = shard;
          options.hosts = HostMap(host_of);
          options.shard_group = host_of.empty() ? ShardGroup::all : ShardGroup::host;
          TrainingState own(table, dtype, true, kept_states(table, options, 4, rank.rank()));
          load_checkpoint(open_checkpoint(whole.path()), table, own);
          CheckpointWriter writer(shared.path(), table, own, rank.world);
          writer.begin(facts_of(small_spec(), 5));
          writer.publish(0);
        });
        TrainingState loaded(table, dtype, true);
        load_checkpoint(open_checkpoint(shared.path()), table, loaded);
        EXPECT_TRUE(same_state(loaded, state));
      }
}

TEST(CheckpointLayouts, AStateThatRanksShareIsSavedAsIfEveryoneHadIt) {
  expect_shared_states_are_saved_whole(ParameterTable(small_spec()));
  expect_shared_states_are_saved_whole(ParameterTable(small_spec(), InitScheme::gpt2, {}, {"", "embedding,block.0"}));
}

uint64_t stored_bytes(const ParameterTable& table, int values) {
  return static_cast<uint64_t>(table.total()) * sizeof(float) * static_cast<uint64_t>(values);
}

TEST(CheckpointLayouts, LoadingReadsOnlyWhatItNeeds) {
  Spec spec = small_spec(70000);  // a token matrix of 36 MB: three pieces
  spec.vocabulary_rows = 70016;
  spec.width = 128;
  const ParameterTable whole(spec);
  TrainingState state(whole, DType::f32, false);
  initialize(state, whole, 1);
  const TemporaryFolder one, parts;
  save(one.path(), whole, state, facts_of(spec, 5), 1);
  save_in_parts(parts.path(), layouts_of(spec, 2, 2), whole, state);
  for (const Layout& layout : layouts_of(spec, 2, 2)) {
    const ParameterTable table(spec, InitScheme::gpt2, layout);
    TrainingState own(table, DType::f32, false);
    EXPECT_EQ(load_checkpoint(open_checkpoint(parts.path()), table, own), stored_bytes(table, 1));
    const uint64_t token_bytes = uint64_t{70000} * 128 * sizeof(float), all = stored_bytes(whole, 1);
    const uint64_t read = load_checkpoint(open_checkpoint(one.path()), table, own);
    EXPECT_LE(read, token_bytes / 2 + kPieceBytes + (all - token_bytes));
    EXPECT_GE(read, stored_bytes(table, 1));
  }
  for (const Layout& layout : layouts_of(spec, 1, 2)) {  // a stage holds complete tensors
    const ParameterTable table(spec, InitScheme::gpt2, layout);
    TrainingState own(table, DType::f32, false);
    EXPECT_EQ(load_checkpoint(open_checkpoint(one.path()), table, own), stored_bytes(table, 1));
  }
}

TEST(CheckpointLayouts, AShardThatHoldsNothingOfARankIsNotOpened) {
  const ParameterTable whole(small_spec());
  TrainingState state(whole, DType::f32, true);
  fill(state, whole, 3);
  const TemporaryFolder folder;
  save_in_parts(folder.path(), layouts_of(small_spec(), 1, 2), whole, state);
  const CheckpointFolder opened = open_checkpoint(folder.path());
  std::filesystem::remove(opened.path + "/" + shard_name(1, 2));
  const ParameterTable blocks(small_spec(), InitScheme::gpt2, {{0, 1, false, false}});
  TrainingState first(blocks, DType::f32, true);
  EXPECT_EQ(load_checkpoint(opened, blocks, first), stored_bytes(blocks, 3));
  const ParameterTable last(small_spec(), InitScheme::gpt2, {{1, 2, false, false}});
  TrainingState other(last, DType::f32, true);
  EXPECT_ERROR(load_checkpoint(opened, last, other), ErrorKind::data, "rank-00001-of-00002.safetensors is missing");
}

TEST(CheckpointLayouts, ARankImportsItsBoxes) {
  for (const char* name : {"gpt2", "opt", "neox-parallel", "bert-classifier"}) {
    const std::string golden = source_dir() + "/tests/golden/" + name;
    Spec spec = read_huggingface_spec(golden);
    spec.vocabulary_rows = 64;
    const ParameterTable whole(spec);
    TrainingState state(whole, DType::bf16, false);
    load_huggingface(golden, spec, whole, state);
    for (const Layout& layout : layouts_of(spec, 2, 2)) {
      const ParameterTable table(spec, InitScheme::gpt2, layout);
      TrainingState expected(table, DType::bf16, false), own(table, DType::bf16, false);
      copy_common(whole, state, table, expected);
      load_huggingface(golden, spec, table, own);
      EXPECT_TRUE(same_state(own, expected)) << name << ", tensor rank " << layout.tensor_rank;
    }
  }
}

TEST(CheckpointLayouts, RanksThatTogetherLackAPartAreRefusedBeforeAnythingIsSaved) {
  const ParameterTable whole(small_spec());
  TrainingState state(whole, DType::f32, true);
  const TemporaryFolder folder;
  std::vector<Layout> layouts = layouts_of(small_spec(), 1, 2);
  layouts[1].part.first_layer = 2;
  EXPECT_ERROR(save_in_parts(folder.path(), layouts, whole, state), ErrorKind::io, "block.1.mlp.out.bias is missing");
  layouts = layouts_of(small_spec(), 2, 1);
  layouts.pop_back();
  EXPECT_ERROR(save_in_parts(folder.path(), layouts, whole, state), ErrorKind::io, "ends at row 8 of 11");
}

}  // namespace
}  // namespace trireme
