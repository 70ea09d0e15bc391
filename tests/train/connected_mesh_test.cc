// Whole training steps on devices that a library connects, ranks as threads, and what happens when it fails.

#include "tests/train/mesh_training.h"

namespace trireme::mesh_training {
namespace {

TEST(ConnectedMeshTraining, GivesTheSameBitsOnDevicesThatALibraryConnects) {
  const Layouts layouts[] = {
      {{.data = 2, .tensor = 1, .pipeline = 1}, Recompute::full, true},
      {{.data = 3, .tensor = 1, .pipeline = 1}, Recompute::none, false, DType::bf16},
      {{.data = 4, .tensor = 1, .pipeline = 1},
       Recompute::none,
       true,
       DType::bf16,
       ShardChoice::optimizer,
       DType::bf16},
      {.mesh = {.data = 4, .tensor = 1, .pipeline = 1}, .wire = DType::bf16, .hosts = {0, 0, 1, 1}},
      {.mesh = {.data = 4, .tensor = 1, .pipeline = 1},
       .wire = DType::bf16,
       .shard = ShardChoice::optimizer,
       .hosts = {0, 1, 0, 1},
       .group = ShardGroup::host},
      {{.data = 1, .tensor = 2, .pipeline = 1}, Recompute::attention, true, DType::f32, ShardChoice::none, DType::bf16},
      {{.data = 1, .tensor = 1, .pipeline = 2}, Recompute::none, true, DType::f32, ShardChoice::none, DType::bf16},
      {{.data = 1, .tensor = 1, .pipeline = 2, .chunks = 2}, Recompute::none, true},
      {{.data = 2, .tensor = 2, .pipeline = 2}, Recompute::none, false, DType::bf16, ShardChoice::optimizer},
      {.mesh = {.data = 1, .tensor = 2, .pipeline = 2}, .sequence_parallel = true},
  };
  for (const Spec& spec : {gpt2(), neox()}) {  // a tied and an untied head
    for (const Layouts& layout : layouts) {
      SCOPED_TRACE(fmt::format("{}{}", name_of(layout.mesh), spec.tied_head ? ", tied" : ""));
      Layouts connected = layout;
      connected.connected = true;
      const Outcome got = train(spec, connected), want = train(spec, layout);
      expect_same_bits(got, want);
    }
  }
}

TEST(ConnectedMeshTraining, SumsOfTheLibraryTrainAlikeWithOtherBits) {
  for (const DType wire : {DType::f32, DType::bf16}) {
    Layouts layouts{.mesh = {.data = 4, .tensor = 1, .pipeline = 1}, .wire = wire, .connected = true};
    const Outcome flat = train(gpt2(), layouts);
    layouts.by_library = true;
    const Outcome own = train(gpt2(), layouts);
    if (wire == DType::f32)
      expect_near(own, flat, gpt2());
    else
      for (size_t i = 0; i < flat.losses.size(); ++i) EXPECT_NEAR(own.losses[i], flat.losses[i], 2e-3) << "step " << i;
    EXPECT_NE(own.weights, flat.weights) << "another definition of a sum";
    layouts.shard = ShardChoice::optimizer;
    expect_same_bits(train(gpt2(), layouts), own);
  }
  const Layouts every_axis{.mesh = {.data = 2, .tensor = 2, .pipeline = 2, .chunks = 2},
                           .shard = ShardChoice::optimizer,
                           .connected = true,
                           .by_library = true};
  const Outcome one = train(neox(), {{.data = 1, .tensor = 1, .pipeline = 1}});
  expect_near(train(neox(), every_axis), one, neox());
}

/// The arrays that a snapshot would hold.
std::vector<std::vector<std::byte>> arrays_of(TrainingState& state) {
  std::vector<std::vector<std::byte>> arrays;
  for (const View& array : state.replicated()) {
    const HostBytes bytes(array);
    const auto* first = static_cast<const std::byte*>(bytes.view().data());
    arrays.emplace_back(first, first + array.bytes());
  }
  return arrays;
}

void restore(TrainingState& state, std::vector<std::vector<std::byte>>& arrays, Device& device) {
  size_t i = 0;
  for (const View& array : state.replicated()) {
    std::vector<std::byte>& bytes = arrays[i++];
    if (array.count() > 0) device.stream().copy(View(bytes.data(), array.dtype(), array.shape()), array);
  }
  device.stream().finish();
}

TEST(ConnectedMeshTraining, ASessionMadeAnewAfterAFailureContinuesWithTheSameBits) {
  const Layouts layouts[] = {
      {{.data = 2, .tensor = 1, .pipeline = 1}, Recompute::none, true, DType::bf16, ShardChoice::optimizer},
      {{.data = 1, .tensor = 2, .pipeline = 1}},
      {{.data = 1, .tensor = 1, .pipeline = 2, .chunks = 2}},
  };
  for (Layouts layout : layouts) {
    SCOPED_TRACE(name_of(layout.mesh));
    layout.connected = true;
    layout.global = 4;
    layout.steps = 4;
    Spec spec = gpt2();
    const Outcome want = train(spec, layout);
    if (layout.dropout) spec.embedding_dropout = spec.attention_dropout = spec.residual_dropout = 0.2f;
    run_local(2, [&](RankContext& of_thread) {
      MeshRank member(spec, layout, of_thread);
      member.open();
      const auto expect_steps = [&](size_t first, size_t last) {
        for (size_t i = first; i < last; ++i) {
          const StepResult result = member.step(static_cast<int64_t>(i));
          EXPECT_EQ(result.loss, want.losses[i]) << "step " << i;
          EXPECT_EQ(result.norm, want.norms[i]) << "step " << i;
        }
      };
      expect_steps(0, 2);
      std::vector<std::vector<std::byte>> saved = arrays_of(member.state);
      SocketNetwork& network = *member.computer.network;
      if (of_thread.rank() == 1) network.set_faults({.fails_at = network.calls() + 3});
      EXPECT_THROW(member.step(2), Error);
      const auto start = Clock::now();
      member.close();
      EXPECT_LT(seconds_since(start), 6) << "all connections end together";
      restore(member.state, saved, *member.computer.device);
      member.open();
      expect_steps(2, static_cast<size_t>(layout.steps));
    });
  }
}

TEST(ConnectedMeshTraining, ANanOnOneStageSkipsTheStepOnAllRanks) {
  const Layouts layouts{.mesh = {.data = 2, .tensor = 1, .pipeline = 2}, .connected = true};
  run_local(4, [&](RankContext& of_thread) {
    MeshRank member(gpt2(), layouts, of_thread);
    member.open();
    EXPECT_TRUE(member.step(0).finite);
    if (of_thread.rank() == 3) {
      float nan = std::numeric_limits<float>::quiet_NaN();
      member.computer.device->stream().copy(View(std::span<float>(&nan, 1), {1}),
                                            member.state.weights().rows_slice(0, 1));
    }
    const std::vector<std::vector<std::byte>> before = arrays_of(member.state);
    const StepResult result = member.step(1);
    EXPECT_FALSE(result.finite);
    EXPECT_TRUE(result.skipped);
    EXPECT_EQ(arrays_of(member.state), before);
  });
}

}  // namespace
}  // namespace trireme::mesh_training
