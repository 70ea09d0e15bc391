// Whole training steps over every axis of the mesh, ranks as threads, against one rank that holds all of the model.

#include <gmock/gmock.h>

#include "model/adapters.h"
#include "optim/parameter_hash.h"
#include "tests/support/expect_error.h"
#include "tests/train/mesh_training.h"

namespace trireme::mesh_training {
namespace {

class MeshTraining : public testing::TestWithParam<Family> {};
INSTANTIATE_TEST_SUITE_P(Families, MeshTraining, testing::ValuesIn(kFamilies),
                         [](const auto& family) { return std::string(family.param.name); });

TEST_P(MeshTraining, EveryLayoutTrainsLikeOneRank) {
  const Spec spec = GetParam().spec();
  const Layouts layouts[] = {
      {{.data = 1, .tensor = 2, .pipeline = 1}},
      {{.data = 1, .tensor = 4, .pipeline = 1}, Recompute::full},
      {{.data = 2, .tensor = 2, .pipeline = 1}, Recompute::attention, true},
      {{.data = 1, .tensor = 2, .pipeline = 2}, Recompute::full, true},
      {{.data = 2, .tensor = 1, .pipeline = 2}},
      {{.data = 2, .tensor = 2, .pipeline = 2}},
      {{.data = 1, .tensor = 2, .pipeline = 4}},
      {{.data = 1, .tensor = 1, .pipeline = 3, .stages = {1, 2, 1}}},
  };
  for (const Layouts& layout : layouts) {
    SCOPED_TRACE(name_of(layout.mesh));
    const Outcome one = train(spec, {{.data = 1, .tensor = 1, .pipeline = 1}, layout.recompute, layout.dropout});
    expect_near(train(spec, layout), one, spec);
  }
}

TEST_P(MeshTraining, SequenceParallelTrainingEqualsOneRank) {
  const Spec spec = GetParam().spec();
  Layouts layouts[] = {
      {{.data = 1, .tensor = 2, .pipeline = 1}},
      {{.data = 1, .tensor = 4, .pipeline = 1}, Recompute::full, true},
      {{.data = 2, .tensor = 2, .pipeline = 1}, Recompute::attention, true, DType::f32, ShardChoice::optimizer},
      {{.data = 1, .tensor = 2, .pipeline = 2}, Recompute::none, true},
      {{.data = 1, .tensor = 2, .pipeline = 4}, Recompute::full},
      {{.data = 2, .tensor = 2, .pipeline = 2, .chunks = 2}},
  };
  for (Layouts& layout : layouts) {
    SCOPED_TRACE(name_of(layout.mesh));
    const Outcome one = train(spec, {{.data = 1, .tensor = 1, .pipeline = 1}, layout.recompute, layout.dropout});
    layout.sequence_parallel = true;
    expect_near(train(spec, layout), one, spec);
  }
}

/// Patterns that leave a stage, a tensor rank's norms, or one side of a tied matrix without anything to train.
constexpr const char* kFreezes[] = {"embedding,block.0-1", "block.2-3,head,norm", "*.weight", "block.1"};

/// False for a model without biases, where only these are left.
bool trains_some(const Spec& spec, const char* freeze) {
  return ParameterTable(spec, InitScheme::gpt2, {}, Trained("", freeze)).trained_count() > 0;
}

/// The elements of frozen parameters.
std::vector<float> frozen_weights(const Spec& spec, const char* freeze, const Outcome& outcome) {
  std::vector<float> values;
  const ParameterTable whole(spec);
  for (const Parameter& p : whole.all())
    if (!Trained("", freeze).includes(p.name))
      values.insert(values.end(), outcome.weights.begin() + p.offset, outcome.weights.begin() + p.offset + p.count());
  return values;
}

TEST_P(MeshTraining, FrozenParametersStayAndEveryLayoutTrainsTheOthersAlike) {
  const Spec spec = GetParam().spec();
  const Outcome start = train(spec, {.mesh = {.data = 1, .tensor = 1, .pipeline = 1}, .steps = 0});
  Layouts layouts[] = {
      {{.data = 2, .tensor = 1, .pipeline = 1}},
      {{.data = 1, .tensor = 2, .pipeline = 1}, Recompute::full},
      {{.data = 1, .tensor = 1, .pipeline = 4}},
      {{.data = 2, .tensor = 1, .pipeline = 2, .chunks = 2}},
      {{.data = 2, .tensor = 2, .pipeline = 1}, Recompute::attention, true, DType::f32, ShardChoice::parameters},
      {{.data = 1, .tensor = 2, .pipeline = 2}, Recompute::none, true},
  };
  layouts[5].sequence_parallel = true;
  for (const char* freeze : kFreezes) {
    if (!trains_some(spec, freeze)) continue;
    for (Layouts& layout : layouts) {
      SCOPED_TRACE(name_of(layout.mesh) + ", frozen: " + freeze);
      layout.freeze = freeze;
      layout.global = 4;
      layout.steps = 3;
      const Outcome got = train(spec, layout);
      const Outcome one = train(spec, {.mesh = {.data = 1, .tensor = 1, .pipeline = 1},
                                       .recompute = layout.recompute,
                                       .dropout = layout.dropout,
                                       .freeze = freeze,
                                       .global = layout.global,
                                       .steps = layout.steps});
      expect_near(got, one, spec);
      EXPECT_EQ(frozen_weights(spec, freeze, got), frozen_weights(spec, freeze, start));
      EXPECT_NE(got.weights, start.weights);
    }
  }
}

TEST_P(MeshTraining, WhatIsSharedChangesNoBitWithFrozenParameters) {
  const Spec spec = GetParam().spec();
  for (const char* freeze : kFreezes)
    for (const MeshShape& mesh : {MeshShape{2, 1, 1}, MeshShape{3, 1, 1}})
      for (const DType dtype : {DType::f32, DType::bf16}) {
        if (!trains_some(spec, freeze)) continue;
        const Layouts whole{
            .mesh = mesh, .wire = DType::bf16, .dtype = dtype, .freeze = freeze, .micro = kGlobal / mesh.data};
        const Outcome want = train(spec, whole);
        for (const ShardChoice shard : {ShardChoice::optimizer, ShardChoice::gradients, ShardChoice::parameters}) {
          SCOPED_TRACE(name_of(mesh) + ", weights " + std::string(name_of(dtype)) + ", frozen: " + freeze);
          Layouts shared = whole;
          shared.shard = shard;
          expect_same_bits(train(spec, shared), want);
        }
      }
}

/// A family with adapters of whole linears, or of what its decoders publish apart.
Spec with_adapters(Spec spec) {
  spec.adapters = spec.gated
                      ? "attention.qkv.query in 0-3: rank 4, scale 2; attention.qkv.value in 0-2: rank 2, scale 1; "
                        "attention.out in 1: rank 3, scale 2; mlp.in.gate in 2: rank 4, scale 0.5; mlp.in.up in 2-3: "
                        "rank 2, scale 1; mlp.out in 0-3: rank 4, scale 2"
                      : "attention.qkv in 0-3: rank 4, scale 2; attention.out in 1: rank 3, scale 2; mlp.in in 2-3: "
                        "rank 5, scale 1; mlp.out in 0-3: rank 4, scale 2";
  return spec;
}
/// The same adapters with magnitudes.
Spec with_magnitudes(Spec spec) {
  std::vector<Adapter> adapters = adapters_of(with_adapters(spec));
  for (Adapter& adapter : adapters) adapter.magnitude = true;
  spec.adapters = adapters_text(adapters);
  return spec;
}
constexpr const char *kAdapters = "*.lora_A,*.lora_B", *kMagnitudes = "*.lora_A,*.lora_B,*.lora_magnitude";

void expect_alike_in_every_layout(const Spec& spec, const char* trained) {
  Layouts layouts[] = {
      {{.data = 2, .tensor = 1, .pipeline = 1}},
      {{.data = 1, .tensor = 2, .pipeline = 1}, Recompute::full},
      {{.data = 1, .tensor = 4, .pipeline = 1}},
      {{.data = 1, .tensor = 1, .pipeline = 4}},
      {{.data = 2, .tensor = 1, .pipeline = 2, .chunks = 2}},
      {{.data = 2, .tensor = 2, .pipeline = 1}, Recompute::attention, true, DType::f32, ShardChoice::parameters},
      {{.data = 1, .tensor = 2, .pipeline = 2}, Recompute::none, true},
  };
  layouts[6].sequence_parallel = true;
  for (Layouts& layout : layouts) {
    SCOPED_TRACE(name_of(layout.mesh));
    layout.only = trained;
    layout.global = 4;
    layout.steps = 4;
    const Outcome got = train(spec, layout);
    const Layouts alone{.mesh = {.data = 1, .tensor = 1, .pipeline = 1},
                        .recompute = layout.recompute,
                        .dropout = layout.dropout,
                        .only = trained,
                        .global = layout.global,
                        .steps = layout.steps};
    const Outcome one = train(spec, alone);
    expect_near(got, one, spec);
    EXPECT_NE(one.losses.front(), one.losses.back());
  }
}

TEST_P(MeshTraining, AdaptersTrainAlikeInEveryLayout) {
  expect_alike_in_every_layout(with_adapters(GetParam().spec()), kAdapters);
}

TEST_P(MeshTraining, AdaptersWithMagnitudesTrainAlikeInEveryLayout) {
  expect_alike_in_every_layout(with_magnitudes(GetParam().spec()), kMagnitudes);
}

TEST_P(MeshTraining, WhatIsSharedChangesNoBitOfAdapters) {
  Spec spec = with_adapters(GetParam().spec());
  spec.adapter_dropout = 0.2f;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Layouts whole{
        .mesh = {2, 1, 1}, .wire = DType::bf16, .dtype = dtype, .only = kAdapters, .micro = kGlobal / 2};
    const Outcome want = train(spec, whole);
    for (const ShardChoice shard : {ShardChoice::optimizer, ShardChoice::gradients, ShardChoice::parameters}) {
      SCOPED_TRACE("weights " + std::string(name_of(dtype)));
      Layouts shared = whole;
      shared.shard = shard;
      expect_same_bits(train(spec, shared), want);
    }
  }
}

TEST_P(MeshTraining, AdaptersBeginAsTheBaseModel) {
  const Spec base = GetParam().spec(), spec = with_adapters(base);
  const Layouts alone{.mesh = {.data = 1, .tensor = 1, .pipeline = 1}, .steps = 0};
  EXPECT_EQ(train(spec, alone).evaluation, train(base, alone).evaluation);
}

TEST_P(MeshTraining, APowerOfTwoAsLossScaleChangesNoBit) {
  const Spec spec = GetParam().spec();
  Layouts layouts{.mesh = {.data = 2, .pipeline = 2}, .wire = DType::bf16};
  const Outcome want = train(spec, layouts);
  layouts.loss_scale = 4096;
  expect_same_bits(train(spec, layouts), want);
}

TEST(MeshStep, ARankWithOtherTokensIsNamedBeforeWeightsChange) {
  const Spec spec = gpt2();
  const MeshShape mesh{.data = 2, .tensor = 1, .pipeline = 2};
  run_local(4, [&](RankContext& rank) {
    const Backend backend = make_backend();
    const ParameterTable table(spec, InitScheme::gpt2, layout_of(spec, mesh, rank.rank()));
    TrainingState state(table, DType::f32, true);
    initialize(state, table, 5);
    const BatchShape shape{
        .global = 4, .micro_batches = 2, .sequence = kSequence, .ranks = 2, .rank = place_of(mesh, rank.rank()).data};
    const std::unique_ptr<Session> made = Session::make(
        {.spec = spec, .shape = {.rows = kSequence, .slots = 2}, .mesh = mesh, .optimizer = OptimizerOptions{}}, table,
        state, *backend.ops, rank);
    Session& session = *made;
    std::vector<uint16_t> tokens = some_tokens();
    if (rank.rank() == 3) std::rotate(tokens.begin(), tokens.begin() + 1, tokens.end());
    const WindowSource windows(tokens, 3);
    SampleBatches batches(windows, shape);
    TrainStep step(session, batches, 7);
    const uint64_t before = parameter_hash(state, table);
    EXPECT_ERROR(
        step.run({.learning_rate = 1e-2, .most_loss = 1e9}), ErrorKind::mismatch,
        "step 1: rank 3 (data 1, tensor 0, pipeline 1) has other tokens than rank 1 (data 1, tensor 0, pipeline 0), "
        "but both compute the same batch: their data files differ; copy the data again. No weight was changed");
    EXPECT_EQ(parameter_hash(state, table), before);
  });
}

TEST_P(MeshTraining, ASharedOptimizerGivesTheBitsOfOneThatEveryRankHas) {
  const Spec spec = GetParam().spec();
  for (const MeshShape& mesh : {MeshShape{2, 1, 1}, MeshShape{3, 1, 1}, MeshShape{2, 2, 1}, MeshShape{2, 1, 2}})
    for (const DType wire : {DType::f32, DType::bf16})
      for (const DType dtype : {DType::f32, DType::bf16}) {
        SCOPED_TRACE(name_of(mesh) + ", wire " + std::string(name_of(wire)) + ", weights " +
                     std::string(name_of(dtype)));
        const Layouts whole{.mesh = mesh, .wire = wire, .dtype = dtype};
        Layouts shared = whole;
        shared.shard = ShardChoice::optimizer;
        const Outcome got = train(spec, shared), want = train(spec, whole);
        EXPECT_EQ(got.losses, want.losses);
        EXPECT_EQ(got.norms, want.norms);
        EXPECT_EQ(got.weights, want.weights);
      }
}

TEST_P(MeshTraining, SharedGradientsAndParametersGiveTheBitsOfOnesThatEveryRankHas) {
  const Spec spec = GetParam().spec();
  for (const MeshShape& mesh : {MeshShape{2, 1, 1}, MeshShape{3, 1, 1}, MeshShape{2, 2, 1}})
    for (const DType wire : {DType::f32, DType::bf16})
      for (const DType dtype : {DType::f32, DType::bf16})
        for (const ShardChoice shard : {ShardChoice::gradients, ShardChoice::parameters}) {
          SCOPED_TRACE(name_of(mesh) + ", wire " + std::string(name_of(wire)) + ", weights " +
                       std::string(name_of(dtype)) +
                       (shard == ShardChoice::parameters ? ", parameters" : ", gradients"));
          const Layouts whole{.mesh = mesh,
                              .recompute = mesh.data == 3 ? Recompute::full : Recompute::none,
                              .dropout = true,
                              .wire = wire,
                              .dtype = dtype,
                              .micro = kGlobal / mesh.data};
          Layouts shared = whole;
          shared.shard = shard;
          const Outcome got = train(spec, shared), want = train(spec, whole);
          expect_same_bits(got, want);
        }
}

TEST_P(MeshTraining, HierarchicalReductionTrainsLikeOneRank) {
  const Spec spec = GetParam().spec();
  const Outcome one = train(spec, {{.data = 1, .tensor = 1, .pipeline = 1}, Recompute::none, true});
  for (const MeshShape& mesh : {MeshShape{4, 1, 1}, MeshShape{4, 2, 1}, MeshShape{4, 1, 2}}) {
    SCOPED_TRACE(name_of(mesh));
    expect_near(train(spec, {.mesh = mesh, .dropout = true, .hosts = {0, 0, 1, 1}}), one, spec);
  }
}

TEST_P(MeshTraining, WhoSharesTheStateChangesNoBitOfHierarchicalReduction) {
  const Spec spec = GetParam().spec();
  for (const std::vector<int>& hosts : {std::vector<int>{0, 0, 1, 1}, {0, 1, 1, 0}, {0, 0}})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Layouts whole{.mesh = {static_cast<int64_t>(hosts.size()), 1, 1},
                          .dropout = true,
                          .wire = DType::bf16,
                          .dtype = dtype,
                          .micro = kGlobal / static_cast<int64_t>(hosts.size()),
                          .hosts = hosts};
      const Outcome want = train(spec, whole);
      for (const ShardChoice shard : {ShardChoice::optimizer, ShardChoice::gradients, ShardChoice::parameters})
        for (const ShardGroup group : {ShardGroup::all, ShardGroup::host}) {
          SCOPED_TRACE(fmt::format("hosts {}, weights {}, shard {}, {}", fmt::join(hosts, " "), name_of(dtype),
                                   static_cast<int>(shard), group == ShardGroup::host ? "host" : "all"));
          Layouts shared = whole;
          shared.shard = shard;
          shared.group = group;
          expect_same_bits(train(spec, shared), want);
        }
    }
}

TEST_P(MeshTraining, SharedGradientsAndParametersTrainLikeOneRank) {
  const Spec spec = GetParam().spec();
  for (const ShardChoice shard : {ShardChoice::gradients, ShardChoice::parameters}) {
    Layouts layouts[] = {{.mesh = {.data = 2, .tensor = 1, .pipeline = 1}},
                         {.mesh = {.data = 5, .tensor = 1, .pipeline = 1}},  // some have a sample more than others
                         {.mesh = {.data = 2, .tensor = 2, .pipeline = 1}, .recompute = Recompute::attention},
                         {.mesh = {.data = 2, .tensor = 2, .pipeline = 1}, .dropout = true, .sequence_parallel = true}};
    for (Layouts& layout : layouts) {
      SCOPED_TRACE(name_of(layout.mesh));
      layout.shard = shard;
      const Outcome one = train(spec, {.mesh = {1, 1, 1}, .recompute = layout.recompute, .dropout = layout.dropout});
      expect_near(train(spec, layout), one, spec);
    }
  }
}

// Twelve samples in micro-batches of one.
TEST(MeshStep, ChunksGiveTheBitsOfOneStageInEveryLayout) {
  Spec spec = neox();
  spec.layers = 7;
  spec.tied_head = true;
  const struct {
    Layouts cut;
    int64_t data, tensor;
  } cases[] = {
      {{{.data = 1, .tensor = 1, .pipeline = 2, .chunks = 3}, Recompute::none, true}, 1, 1},
      {{{.data = 1, .tensor = 1, .pipeline = 3, .stages = {1, 2, 1, 1, 1, 1}, .chunks = 2}, Recompute::full}, 1, 1},
      {{{.data = 2, .tensor = 1, .pipeline = 3, .chunks = 2},
        Recompute::attention,
        true,
        DType::f32,
        ShardChoice::optimizer},
       2,
       1},
      {{{.data = 1, .tensor = 2, .pipeline = 2, .chunks = 2}, Recompute::none, true}, 1, 2},
      {{{.data = 1, .tensor = 2, .pipeline = 2, .chunks = 3},
        Recompute::full,
        false,
        DType::f32,
        ShardChoice::none,
        DType::f32,
        true},
       1,
       2}};
  for (const auto& [cut, data, tensor] : cases) {
    SCOPED_TRACE(name_of(cut.mesh));
    Layouts whole = cut;
    whole.mesh = {.data = data, .tensor = tensor, .pipeline = 1};
    const Outcome got = train(spec, cut), one = train(spec, whole);
    expect_same_bits(got, one);
  }
}

TEST_P(MeshTraining, APipelineGivesTheBitsOfOneStage) {
  const Spec spec = GetParam().spec();
  for (const Recompute recompute : {Recompute::none, Recompute::attention, Recompute::full})
    for (const int64_t data : {1, 2}) {
      const bool dropout = recompute != Recompute::none;
      const Outcome one = train(spec, {{.data = data, .tensor = 1, .pipeline = 1}, recompute, dropout});
      for (const auto& [stages, chunks] : {std::pair<int64_t, int64_t>{2, 1}, {3, 1}, {4, 1}, {2, 2}}) {
        const MeshShape mesh{.data = data, .tensor = 1, .pipeline = stages, .chunks = chunks};
        SCOPED_TRACE(name_of(mesh));
        const Outcome got = train(spec, {mesh, recompute, dropout});
        expect_same_bits(got, one);
      }
    }
}

TEST_P(MeshTraining, GivesTheSameBitsOnADeviceThatTheProgramDoesNotReachAndThatComputesLater) {
  const Spec spec = GetParam().spec();
  const Layouts layouts[] = {
      {{.data = 1, .tensor = 1, .pipeline = 1}, Recompute::full, true},
      {{.data = 3, .tensor = 1, .pipeline = 1}, Recompute::none, false, DType::bf16},
      {{.data = 2, .tensor = 1, .pipeline = 1},
       Recompute::none,
       true,
       DType::bf16,
       ShardChoice::optimizer,
       DType::bf16},
      {{.data = 2, .tensor = 1, .pipeline = 1}, Recompute::full, true, DType::bf16, ShardChoice::gradients},
      {{.data = 3, .tensor = 1, .pipeline = 1},
       Recompute::none,
       true,
       DType::f32,
       ShardChoice::parameters,
       DType::bf16},
      {{.data = 1, .tensor = 2, .pipeline = 1}, Recompute::attention, true},
      {{.data = 1, .tensor = 1, .pipeline = 2}, Recompute::none, true, DType::f32, ShardChoice::none, DType::bf16},
      {{.data = 2, .tensor = 2, .pipeline = 2}, Recompute::none, false, DType::bf16},
      {.mesh = {.data = 1, .tensor = 2, .pipeline = 2}, .sequence_parallel = true},
  };
  for (const Layouts& layout : layouts) {
    SCOPED_TRACE(name_of(layout.mesh));
    Layouts apart = layout;
    apart.apart = true;
    const Outcome got = train(spec, apart), want = train(spec, layout);
    expect_same_bits(got, want);
  }
}

}  // namespace
}  // namespace trireme::mesh_training
