// Whole training steps over every axis of the mesh, ranks as threads, against one rank that holds all of the model.

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "model/mesh_layout.h"
#include "model/pipeline_order.h"
#include "tests/support/apart_device.h"
#include "tests/support/cut_states.h"
#include "tests/support/expect_error.h"
#include "tests/support/local_ranks.h"
#include "tests/support/tiny_model.h"
#include "train/guard/healing.h"
#include "train/step.h"

namespace trireme {
namespace {

constexpr int64_t kGlobal = 12, kSequence = 8, kSteps = 6;

Spec gpt2() {
  Spec spec = tiny_spec();
  spec.layers = 4;
  spec.heads = 4;
  return spec;
}
Spec neox() {
  Spec spec = gpt2();
  spec.tied_head = false;
  spec.position = Position::rotary;
  spec.rotary_dims = 2;
  spec.residual = Residual::parallel;
  return spec;
}
Spec opt() {
  Spec spec = gpt2();
  spec.norm_place = NormPlace::post;
  spec.final_norm = false;
  spec.embedding_width = 8;
  spec.position_offset = 2;
  spec.activation = Activation::relu;
  return spec;
}
Spec bert() {
  Spec spec = gpt2();
  spec.norm_place = NormPlace::post;
  spec.final_norm = false;
  spec.mask = Mask::full;
  spec.token_types = 2;
  spec.embedding_norm = true;
  spec.head = HeadKind::masked_language_model;
  return spec;
}

struct Family {
  const char* name;
  Spec (*spec)();
};
constexpr Family kFamilies[] = {{"gpt2", gpt2}, {"neox", neox}, {"opt", opt}, {"bert", bert}};

struct Layouts {
  MeshShape mesh;
  Recompute recompute = Recompute::none;
  bool dropout = false;
  DType wire = DType::f32;
  ShardChoice shard = ShardChoice::none;
  DType dtype = DType::f32;
  bool shares_rows = false;
  bool apart = false;        ///< on a device that the program does not reach
  int64_t micro = 0;         ///< samples of a micro-batch; 0: one
  std::vector<int> hosts{};  ///< of the data ranks, whose sums are then made hosts first
  ShardGroup group = ShardGroup::all;
};

/// What a rank computes on.
struct Place {
  Place(bool apart, const RankContext& of_thread) : rank(of_thread) {
    if (!apart) return;
    device.emplace();
    world.emplace(*device, of_thread.world);
    ops = std::make_unique<ApartOps>(*device, make_cpu_ops());
  }
  std::unique_ptr<Ops> ops = make_cpu_ops();
  std::optional<ApartDevice> device;
  std::optional<ApartCommunicator> world;
  const RankContext& rank;
  RankContext context() {
    return {.world = world ? static_cast<Communicator&>(*world) : rank.world,
            .host = rank.host,
            .hosts = rank.hosts,
            .log_name = rank.log_name,
            .heartbeat = rank.heartbeat,
            .stop_requested = rank.stop_requested,
            .threads = rank.threads};
  }
};

std::vector<uint16_t> some_tokens() {
  std::vector<uint16_t> tokens(700);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint16_t>(i * i % 13);
  return tokens;
}

/// What training comes to: the same on every rank, and the weights put together again.
struct Outcome {
  std::vector<double> losses, norms;
  double evaluation = 0;
  std::vector<float> weights;
};

/// kSteps steps from the same start.
Outcome train(Spec spec, const Layouts& layouts) {
  if (layouts.dropout) spec.embedding_dropout = spec.attention_dropout = spec.residual_dropout = 0.2f;
  const MeshShape mesh = layouts.mesh;
  const auto ranks = static_cast<int>(mesh.data * mesh.tensor * mesh.pipeline);
  const ParameterTable whole(spec);
  TrainingState all(whole, layouts.dtype, false);
  Outcome outcome;
  std::mutex mutex;
  run_local(ranks, [&](RankContext& of_thread) {
    Place computer(layouts.apart, of_thread);
    const RankContext rank = computer.context();
    const ParameterTable table(spec, InitScheme::gpt2, layout_of(spec, mesh, rank.rank()));
    const MeshPlace place = place_of(mesh, rank.rank());
    OptimizerOptions options;
    options.adamw.epsilon = 1e-3f;  // Adam's direction of a gradient near zero is not its sign
    options.wire = layouts.wire;
    options.shard = layouts.shard;
    options.hosts = HostMap(layouts.hosts);
    options.shard_group = layouts.group;
    options.bucket_bytes = 4000;
    TrainingState state(table, layouts.dtype, true,
                        kept_states(table, options, static_cast<int>(mesh.data), place.data), computer.ops->device());
    EXPECT_EQ(state.is_sharded(), layouts.shard != ShardChoice::none && mesh.data > 1);
    initialize(state, table, 5);
    const int64_t kMicro = layouts.micro > 0 ? layouts.micro : 1;
    const BatchShape shape{.global = kGlobal,
                           .micro_batches = ((kGlobal + mesh.data - 1) / mesh.data + kMicro - 1) / kMicro,
                           .sequence = kSequence,
                           .ranks = static_cast<int>(mesh.data),
                           .rank = place.data};
    const auto order = pipeline_order(place.pipeline, mesh.pipeline, mesh.chunks, shape.micro_batches);
    Session session({.spec = spec,
                     .dtype = layouts.dtype,
                     .shape = {.rows = kMicro * kSequence,
                               .head_rows = 4,
                               .accumulates = !exchanges_every_micro_batch(options.shard, mesh.data),
                               .recompute = layouts.recompute,
                               .chunk_slots = slots_of_chunks(order, mesh.chunks),
                               .shares_rows = layouts.shares_rows},
                     .mesh = mesh,
                     .optimizer = options},
                    table, state, *computer.ops, rank);
    const std::vector<uint16_t> tokens = some_tokens();
    const WindowSource windows(tokens, 3);
    SampleBatches batches(windows, shape);
    TrainStep step(session, batches, 7);
    std::vector<double> losses, norms;
    for (int64_t i = 0; i < kSteps; ++i) {
      const StepResult result = step.run({.step = i,
                                          .consumed = static_cast<uint64_t>(i * kGlobal),
                                          .update = i + 1,
                                          .learning_rate = 1e-2,
                                          .most_loss = std::numeric_limits<double>::infinity()});
      losses.push_back(result.loss);
      norms.push_back(result.norm);
    }
    const double evaluation = evaluate(session, windows, shape, 1).value();
    check_parameters(session.mesh(), session.scalars(), "host", state, table, kSteps, false);
    TrainingState seen(table, layouts.dtype, false);
    for (size_t group = 0; group < table.ready_ranges().size(); ++group) {
      const auto [begin, end] = table.weights_of(group);
      const Reading weights(session.weights(), {begin, end});
      computer.ops->device().stream().copy(state.weights().rows_slice(begin, end - begin),
                                           seen.weights().rows_slice(begin, end - begin));
    }
    const std::lock_guard lock(mutex);
    if (outcome.losses.empty()) outcome = {losses, norms, evaluation, {}};
    EXPECT_EQ(outcome.losses, losses) << "rank " << rank.rank();
    EXPECT_EQ(outcome.norms, norms) << "rank " << rank.rank();
    EXPECT_EQ(outcome.evaluation, evaluation);
    for (const Parameter& parameter : table.all()) {
      const Parameter& to = whole.find(parameter.name);
      layouts.dtype == DType::bf16 ? copy_box<bf16_t>(parameter, seen.weights(), to, all.weights())
                                   : copy_box<float>(parameter, seen.weights(), to, all.weights());
    }
  });
  for (int64_t i = 0; i < all.weights().count(); ++i)
    outcome.weights.push_back(layouts.dtype == DType::bf16 ? to_float(all.weights().as<bf16_t>()[i])
                                                           : all.weights().as<float>()[i]);
  return outcome;
}

std::string name_of(const MeshShape& mesh) {
  return "data " + std::to_string(mesh.data) + ", tensor " + std::to_string(mesh.tensor) + ", pipeline " +
         std::to_string(mesh.pipeline) + ", chunks " + std::to_string(mesh.chunks);
}

void expect_near(const Outcome& got, const Outcome& want, const Spec& spec) {
  for (size_t i = 0; i < want.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], want.losses[i], 1e-5 * want.losses[i]) << "step " << i + 1;
    EXPECT_NEAR(got.norms[i], want.norms[i], 1e-4 * want.norms[i]) << "step " << i + 1;
  }
  EXPECT_NEAR(got.evaluation, want.evaluation, 1e-5 * want.evaluation);
  const ParameterTable table(spec);
  for (const Parameter& p : table.all()) {
    double norm = 0, difference = 0;
    for (int64_t i = p.offset; i < p.offset + p.stored().elements(); ++i) {
      const double w = static_cast<double>(want.weights[static_cast<size_t>(i)]);
      norm += w * w;
      difference = std::max(difference, std::abs(w - static_cast<double>(got.weights[static_cast<size_t>(i)])));
    }
    EXPECT_LE(difference, 1e-5 * std::sqrt(norm) + 1e-7) << p.name;
  }
}

void expect_same_bits(const Outcome& got, const Outcome& want) {
  EXPECT_EQ(got.losses, want.losses);
  EXPECT_EQ(got.norms, want.norms);
  EXPECT_EQ(got.evaluation, want.evaluation);
  EXPECT_EQ(got.weights, want.weights);
}

class MeshTraining : public testing::TestWithParam<Family> {};
INSTANTIATE_TEST_SUITE_P(Families, MeshTraining, testing::ValuesIn(kFamilies),
                         [](const auto& family) { return std::string(family.param.name); });

TEST_P(MeshTraining, EveryLayoutComesToWhatOneRankComesTo) {
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

TEST_P(MeshTraining, SharedRowsComeToWhatOneRankComesTo) {
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
    layout.shares_rows = true;
    expect_near(train(spec, layout), one, spec);
  }
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
    Session session(
        {.spec = spec, .shape = {.rows = kSequence, .slots = 2}, .mesh = mesh, .optimizer = OptimizerOptions{}}, table,
        state, *backend.ops, rank);
    std::vector<uint16_t> tokens = some_tokens();
    if (rank.rank() == 3) std::rotate(tokens.begin(), tokens.begin() + 1, tokens.end());
    const WindowSource windows(tokens, 3);
    SampleBatches batches(windows, shape);
    TrainStep step(session, batches, 7);
    const uint64_t before = parameter_hash(state, table);
    EXPECT_ERROR(
        step.run({.learning_rate = 1e-2, .most_loss = 1e9}), ErrorKind::mismatch,
        "step 1: rank 3 (data 1, tensor 0, pipeline 1) has other tokens than rank 1 (data 1, tensor 0, pipeline "
        "0), with which it shares a batch; their data files differ. No weight was changed");
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

TEST_P(MeshTraining, HostsFirstComesToWhatOneRankComesTo) {
  const Spec spec = GetParam().spec();
  const Outcome one = train(spec, {{.data = 1, .tensor = 1, .pipeline = 1}, Recompute::none, true});
  for (const MeshShape& mesh : {MeshShape{4, 1, 1}, MeshShape{4, 2, 1}, MeshShape{4, 1, 2}}) {
    SCOPED_TRACE(name_of(mesh));
    expect_near(train(spec, {.mesh = mesh, .dropout = true, .hosts = {0, 0, 1, 1}}), one, spec);
  }
}

TEST_P(MeshTraining, WhoSharesTheStateChangesNoBitOfSumsMadeHostsFirst) {
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

TEST_P(MeshTraining, SharedGradientsAndParametersComeToWhatOneRankComesTo) {
  const Spec spec = GetParam().spec();
  for (const ShardChoice shard : {ShardChoice::gradients, ShardChoice::parameters}) {
    Layouts layouts[] = {{.mesh = {.data = 2, .tensor = 1, .pipeline = 1}},
                         {.mesh = {.data = 5, .tensor = 1, .pipeline = 1}},  // some have a sample more than others
                         {.mesh = {.data = 2, .tensor = 2, .pipeline = 1}, .recompute = Recompute::attention},
                         {.mesh = {.data = 2, .tensor = 2, .pipeline = 1}, .dropout = true, .shares_rows = true}};
    for (Layouts& layout : layouts) {
      SCOPED_TRACE(name_of(layout.mesh));
      layout.shard = shard;
      const Outcome one = train(spec, {.mesh = {1, 1, 1}, .recompute = layout.recompute, .dropout = layout.dropout});
      expect_near(train(spec, layout), one, spec);
    }
  }
}

// Twelve samples in micro-batches of one.
TEST(MeshStep, ChunksGiveTheBitsOfOneStageWhateverElseIsCut) {
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
      {.mesh = {.data = 1, .tensor = 2, .pipeline = 2}, .shares_rows = true},
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
}  // namespace trireme
