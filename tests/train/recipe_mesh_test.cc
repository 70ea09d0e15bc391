// The meshes of published recipes with tiny models, on devices that a library connects: the bits of CPUs.

#include "tests/train/mesh_training.h"

namespace trireme::mesh_training {
namespace {

void expect_bits_of_cpus(const Spec& spec, const Layouts& layout) {
  SCOPED_TRACE(name_of(layout.mesh));
  Layouts connected = layout;
  connected.connected = true;
  const Outcome got = train(spec, connected);
  expect_same_bits(got, train(spec, layout));
  EXPECT_NE(got.losses.front(), got.losses.back());
}

/// GPT-NeoX with 20 billion weights on three nodes of eight GPUs: no tied head, parallel residual, layers computed
/// again.
TEST(RecipeMesh, NeoxOnSixStagesOfFourTensorRanks) {
  Spec spec = neox();
  spec.layers = 8;
  expect_bits_of_cpus(spec, {.mesh = {.data = 1, .tensor = 4, .pipeline = 6},
                             .recompute = Recompute::full,
                             .shard = ShardChoice::optimizer,
                             .dtype = DType::bf16,
                             .global = 8,
                             .steps = 3});
}

/// With 2.7 billion weights on two nodes of four GPUs, each node's sum first.
TEST(RecipeMesh, NeoxOnEightDataRanksOfTwoNodes) {
  Spec spec = neox();
  spec.residual = Residual::sequential;
  expect_bits_of_cpus(spec, {.mesh = {.data = 8, .tensor = 1, .pipeline = 1},
                             .recompute = Recompute::full,
                             .wire = DType::bf16,
                             .shard = ShardChoice::optimizer,
                             .dtype = DType::bf16,
                             .hosts = {0, 0, 0, 0, 1, 1, 1, 1},
                             .global = 8,
                             .steps = 3});
}

/// OPT on two nodes of eight GPUs: two tensor ranks, and four for 30 billion weights.
TEST(RecipeMesh, OptOnSixteenGpus) {
  Spec spec = gpt2();
  spec.activation = Activation::relu;
  spec.position_offset = 2;
  for (const int64_t tensor : {2, 4}) {
    const int64_t data = 16 / tensor;
    std::vector<int> hosts;
    for (int64_t rank = 0; rank < data; ++rank) hosts.push_back(rank < data / 2 ? 0 : 1);
    expect_bits_of_cpus(spec, {.mesh = {.data = data, .tensor = tensor, .pipeline = 1},
                               .recompute = Recompute::full,
                               .dropout = true,
                               .wire = DType::bf16,
                               .shard = ShardChoice::optimizer,
                               .dtype = DType::bf16,
                               .hosts = hosts,
                               .global = 8,
                               .steps = 3});
  }
}

}  // namespace
}  // namespace trireme::mesh_training
