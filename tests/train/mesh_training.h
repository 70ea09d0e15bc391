#pragma once
// Whole training steps over any layout of a mesh, ranks as threads, and what they come to.

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>

#include "model/mesh_layout.h"
#include "model/pipeline_order.h"
#include "tensor/f16.h"
#include "tests/support/apart_device.h"
#include "tests/support/apart_ops.h"
#include "tests/support/cut_states.h"
#include "tests/support/local_ranks.h"
#include "tests/support/socket_network.h"
#include "tests/support/tiny_model.h"
#include "train/guard/healing.h"
#include "train/step.h"

namespace trireme::mesh_training {

constexpr int64_t kGlobal = 12, kSequence = 8, kSteps = 6;

inline Spec gpt2() {
  Spec spec = tiny_spec();
  spec.layers = 4;
  spec.heads = 4;
  return spec;
}
inline Spec neox() {
  Spec spec = gpt2();
  spec.tied_head = false;
  spec.position = Position::rotary;
  spec.rotary_dims = 2;
  spec.residual = Residual::parallel;
  return spec;
}
inline Spec opt() {
  Spec spec = gpt2();
  spec.norm_place = NormPlace::post;
  spec.final_norm = false;
  spec.embedding_width = 8;
  spec.position_offset = 2;
  spec.activation = Activation::relu;
  return spec;
}
inline Spec bert() {
  Spec spec = gpt2();
  spec.norm_place = NormPlace::post;
  spec.final_norm = false;
  spec.mask = Mask::full;
  spec.token_types = 2;
  spec.embedding_norm = true;
  spec.head = HeadKind::masked_language_model;
  return spec;
}
/// 4 heads of keys for 8 of queries, so that 4 tensor ranks have one each.
inline Spec llama() {
  Spec spec = gpt2();
  spec.heads = 8;
  spec.head_size = 4;
  spec.key_heads = 4;
  spec.norm = NormKind::rms;
  spec.gated = true;
  spec.activation = Activation::silu;
  spec.inner_width = 24;
  spec.biases = {.qkv = false, .attention_out = false, .mlp_in = false, .mlp_out = false, .norm = false};
  spec.position = Position::rotary;
  spec.rotary_dims = 4;
  spec.rotary = {.kind = RotaryKind::llama3, .factor = 4, .original_context = 4};
  return spec;
}
inline Spec gemma() {
  Spec spec = llama();
  spec.activation = Activation::gelu_tanh;
  spec.norm_place = NormPlace::both;
  spec.norm_offset = 1;
  spec.query_keys = QueryKeys::head;
  spec.norm_epsilon = 1e-2f;  // four values of a head may be near zero, where their norm makes rounding errors large
  spec.embedding_scale = 4;
  spec.attention_cap = 5;
  spec.logits_cap = 3;
  spec.window = 3;
  spec.attention_layers = "WWFW";
  spec.window_rotary_base = 100;
  spec.rotary = {.kind = RotaryKind::linear, .factor = 2};
  return spec;
}

struct Family {
  const char* name;
  Spec (*spec)();
};
constexpr Family kFamilies[] = {{"gpt2", gpt2}, {"neox", neox}, {"opt", opt}, {"bert", bert}, {"gemma", gemma}};

struct Layouts {
  MeshShape mesh;
  Recompute recompute = Recompute::none;
  bool dropout = false;
  DType wire = DType::f32;
  ShardChoice shard = ShardChoice::none;
  DType dtype = DType::f32;
  bool sequence_parallel = false;
  const char *freeze = "", *only = "";  ///< patterns of parameters
  bool apart = false;                   ///< on a device that the program does not reach
  bool connected = false;               ///< the same, and a library connects the devices: messages are the host's only
  int64_t micro = 0;                    ///< samples of a micro-batch; 0: one
  std::vector<int> hosts{};             ///< of the data ranks: hierarchical reduction
  ShardGroup group = ShardGroup::all;
  int64_t global = kGlobal, steps = kSteps;
  double loss_scale = 1;
  double clip = OptimizerOptions().clip;
  std::unique_ptr<Ops> (*make_ops)() = make_cpu_ops;  ///< of the host's memory
  bool by_library = false;                            ///< which adds gradients; connected
};

/// What a rank computes on.
struct Place {
  Place(const Layouts& wanted, const RankContext& of_thread) : layouts(wanted), rank(of_thread) {
    if (!layouts.apart && !layouts.connected) {
      ops = layouts.make_ops();
      return;
    }
    device.emplace();
    if (layouts.connected) {
      auto sockets = std::make_unique<SocketNetwork>(*device);
      network = sockets.get();
      device->set_network(std::move(sockets));
    } else {
      world.emplace(*device, of_thread.world);
    }
    ops = std::make_unique<ApartOps>(*device, layouts.make_ops(), layouts.dtype == DType::f16);
  }
  const Layouts layouts;
  std::optional<ApartDevice> device;
  SocketNetwork* network = nullptr;  ///< of the device
  std::unique_ptr<Ops> ops;
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

inline std::vector<uint16_t> some_tokens() {
  std::vector<uint16_t> tokens(700);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint16_t>(i * i % 13);
  return tokens;
}

/// What training comes to: the same on every rank, and the weights put together again.
struct Outcome {
  std::vector<double> losses, norms;
  double evaluation = 0;
  std::vector<float> weights;
  std::vector<DeviceCounts> counts;  ///< of every step, where training is apart
};

/// What one rank trains with, from the same start: a state, and a session that can be opened again.
class MeshRank {
 public:
  /// layouts.dropout: spec has it.
  MeshRank(const Spec& spec, const Layouts& layouts, const RankContext& of_thread)
      : computer(layouts, of_thread),
        rank(computer.context()),
        table(spec, InitScheme::gpt2, layout_of(spec, layouts.mesh, rank.rank()),
              Trained(layouts.only, layouts.freeze)),
        options(options_of(layouts)),
        state(table, layouts.dtype, true,
              kept_states(table, options, static_cast<int>(layouts.mesh.data), place().data), computer.ops->device()),
        shape{.global = layouts.global,
              .micro_batches = (per_rank() + micro() - 1) / micro(),
              .sequence = kSequence,
              .ranks = static_cast<int>(layouts.mesh.data),
              .rank = place().data},
        spec_(spec) {
    EXPECT_EQ(state.is_sharded(), layouts.shard != ShardChoice::none && layouts.mesh.data > 1);
    initialize(state, table, 5);
  }
  MeshRank(const MeshRank&) = delete;
  MeshRank& operator=(const MeshRank&) = delete;

  /// Collective, as step().
  void open() {
    const Layouts& layouts = computer.layouts;
    const MeshShape& mesh = layouts.mesh;
    const auto order = pipeline_order(place().pipeline, mesh.pipeline, mesh.chunks, shape.micro_batches);
    session = Session::make(
        SessionOptions{.spec = spec_,
                       .dtype = layouts.dtype,
                       .shape = with_trained({.rows = micro() * kSequence,
                                              .head_rows = 4,
                                              .accumulates = !exchanges_every_micro_batch(options.shard, mesh.data),
                                              .recompute = layouts.recompute,
                                              .chunk_slots = slots_of_chunks(order, mesh.chunks),
                                              .sequence_parallel = layouts.sequence_parallel},
                                             spec_, Trained(layouts.only, layouts.freeze)),
                       .mesh = mesh,
                       .optimizer = options},
        table, state, *computer.ops, rank);
    batches_.emplace(windows, shape);
    training_.emplace(*session, *batches_, 7);
  }
  void close() {
    training_.reset();
    batches_.reset();
    session.reset();
  }
  StepResult step(int64_t i) {
    const Layouts& layouts = computer.layouts;
    return training_->run({.step = i,
                           .consumed = static_cast<uint64_t>(i * layouts.global),
                           .update = i + 1,
                           .learning_rate = 1e-2,
                           .most_loss = std::numeric_limits<double>::infinity(),
                           .loss_scale = layouts.loss_scale,
                           .next = i + 1 < layouts.steps});
  }

  Place computer;
  const RankContext rank;
  const ParameterTable table;
  const OptimizerOptions options;
  TrainingState state;
  const BatchShape shape;
  const std::vector<uint16_t> tokens = some_tokens();
  const WindowSource windows{tokens, 3};
  std::unique_ptr<Session> session;

 private:
  static OptimizerOptions options_of(const Layouts& layouts) {
    OptimizerOptions options;
    options.adamw.epsilon = 1e-3f;  // Adam's direction of a gradient near zero is not its sign
    options.wire = layouts.wire;
    options.shard = layouts.shard;
    options.hosts = HostMap(layouts.hosts);
    options.shard_group = layouts.group;
    options.devices = layouts.connected;
    options.by_library = layouts.by_library;
    options.bucket_bytes = 4000;
    options.clip = layouts.clip;
    return options;
  }
  MeshPlace place() const { return place_of(computer.layouts.mesh, rank.rank()); }
  int64_t per_rank() const {
    const int64_t data = computer.layouts.mesh.data;
    return (computer.layouts.global + data - 1) / data;
  }
  int64_t micro() const { return std::max<int64_t>(computer.layouts.micro, 1); }

  const Spec spec_;
  std::optional<SampleBatches> batches_;
  std::optional<TrainStep> training_;
};

/// kSteps steps from the same start.
inline Outcome train(Spec spec, const Layouts& layouts) {
  if (layouts.dropout) spec.embedding_dropout = spec.attention_dropout = spec.residual_dropout = 0.2f;
  const MeshShape mesh = layouts.mesh;
  const auto ranks = static_cast<int>(mesh.data * mesh.tensor * mesh.pipeline);
  const ParameterTable whole(spec);
  TrainingState all(whole, layouts.dtype, false);
  Outcome outcome;
  std::mutex mutex;
  run_local(ranks, [&](RankContext& of_thread) {
    MeshRank member(spec, layouts, of_thread);
    member.open();
    const ParameterTable& table = member.table;
    Session& session = *member.session;
    ApartDevice* device = member.computer.device ? &*member.computer.device : nullptr;
    std::vector<double> losses, norms;
    std::vector<DeviceCounts> counts;
    for (int64_t i = 0; i < layouts.steps; ++i) {
      if (device) device->reset_counts();
      const StepResult result = member.step(i);
      losses.push_back(result.loss);
      norms.push_back(result.norm);
      if (device) counts.push_back(device->counts());
    }
    const double evaluation = evaluate(session, member.windows, member.shape, 1).value();
    check_parameters(session.mesh(), session.scalars(), "host", member.state, table, session.ops(), layouts.steps,
                     false);
    TrainingState seen(table, layouts.dtype, false);
    for (size_t group = 0; group < table.ready_ranges().size(); ++group) {
      const WeightRanges& ranges = table.weights_of(group);
      const Reading weights(session.weights(), ranges);
      for (const auto& [begin, end] : {ranges.trained, ranges.frozen}) {
        if (begin == end) continue;
        session.ops().device().stream().copy(member.state.weights().rows_slice(begin, end - begin),
                                             seen.weights().rows_slice(begin, end - begin));
      }
    }
    const std::lock_guard lock(mutex);
    if (outcome.losses.empty()) outcome = {losses, norms, evaluation, {}, counts};
    EXPECT_EQ(outcome.losses, losses) << "rank " << member.rank.rank();
    EXPECT_EQ(outcome.norms, norms) << "rank " << member.rank.rank();
    EXPECT_EQ(outcome.evaluation, evaluation);
    for (const Parameter& parameter : table.all()) {
      const Parameter& to = whole.find(parameter.name);
      layouts.dtype == DType::bf16  ? copy_box<bf16_t>(parameter, seen.weights(), to, all.weights())
      : layouts.dtype == DType::f16 ? copy_box<f16_t>(parameter, seen.weights(), to, all.weights())
                                    : copy_box<float>(parameter, seen.weights(), to, all.weights());
    }
  });
  for (int64_t i = 0; i < all.weights().count(); ++i)
    outcome.weights.push_back(layouts.dtype == DType::bf16  ? to_float(all.weights().as<bf16_t>()[i])
                              : layouts.dtype == DType::f16 ? to_float(all.weights().as<f16_t>()[i])
                                                            : all.weights().as<float>()[i]);
  return outcome;
}

inline std::string name_of(const MeshShape& mesh) {
  return "data " + std::to_string(mesh.data) + ", tensor " + std::to_string(mesh.tensor) + ", pipeline " +
         std::to_string(mesh.pipeline) + ", chunks " + std::to_string(mesh.chunks);
}

inline void expect_near(const Outcome& got, const Outcome& want, const Spec& spec) {
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

inline void expect_same_bits(const Outcome& got, const Outcome& want) {
  EXPECT_EQ(got.losses, want.losses);
  EXPECT_EQ(got.norms, want.norms);
  EXPECT_EQ(got.evaluation, want.evaluation);
  EXPECT_EQ(got.weights, want.weights);
}

}  // namespace trireme::mesh_training
