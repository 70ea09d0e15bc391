#include "model/mesh_layout.h"

#include <gtest/gtest.h>

#include "model/presets.h"
#include "tests/model/model_fixture.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

std::vector<int64_t> blocks_of(const Spec& spec, int64_t stages, int64_t chunks = 1) {
  std::vector<int64_t> blocks;
  int64_t next = 0;
  for (const ModelPart& part : stages_of(spec, {.data = 1, .pipeline = stages, .chunks = chunks})) {
    EXPECT_EQ(part.first_layer, next);
    EXPECT_EQ(part.embedding, next == 0);
    next = part.last_layer;
    EXPECT_EQ(part.head, next == spec.layers);
    blocks.push_back(part.layers());
  }
  EXPECT_EQ(next, spec.layers);
  return blocks;
}

// GPT-2 124M's head is about five blocks' work.
TEST(MeshLayout, StagesAreBalancedByWorkWithTheHead) {
  const Spec gpt2 = preset("gpt2").spec;
  EXPECT_EQ(blocks_of(gpt2, 1), (std::vector<int64_t>{12}));
  EXPECT_EQ(blocks_of(gpt2, 2), (std::vector<int64_t>{8, 4}));
  EXPECT_EQ(blocks_of(gpt2, 4), (std::vector<int64_t>{3, 4, 4, 1}));
  EXPECT_EQ(blocks_of(preset("neox-20b").spec, 4), (std::vector<int64_t>{11, 11, 11, 11}));
  Spec classifier = gpt2;
  classifier.head = HeadKind::classifier;
  EXPECT_EQ(blocks_of(classifier, 4), (std::vector<int64_t>{3, 3, 3, 3}));
  EXPECT_EQ(blocks_of(classifier, 5), (std::vector<int64_t>{2, 2, 2, 3, 3}));
  for (int64_t stages = 1; stages <= 12; ++stages)
    for (int64_t chunks = 1; chunks * stages <= 12 && (stages > 1 || chunks == 1); ++chunks)
      for (const int64_t n : blocks_of(gpt2, stages, chunks)) EXPECT_GE(n, 1) << stages << " x " << chunks;
}

// Of two stages the first has 4 and 4 blocks, the second 3, and 1 plus the head: as without chunks 8 and 4.
TEST(MeshLayout, ChunksAreBalancedByTheWorkOfTheirStages) {
  const Spec gpt2 = preset("gpt2").spec;
  EXPECT_EQ(blocks_of(gpt2, 2, 2), (std::vector<int64_t>{4, 3, 4, 1}));
  EXPECT_EQ(blocks_of(gpt2, 2, 3), (std::vector<int64_t>{2, 1, 3, 2, 3, 1}));
  EXPECT_EQ(blocks_of(preset("neox-20b").spec, 4, 2), (std::vector<int64_t>{5, 5, 5, 6, 6, 6, 6, 5}));
  Spec classifier = gpt2;
  classifier.head = HeadKind::classifier;
  EXPECT_EQ(blocks_of(classifier, 3, 2), (std::vector<int64_t>{2, 2, 2, 2, 2, 2}));
}

TEST(MeshLayout, EveryRankHasItsPlaceAndTheRanksOfAReplicaHoldTheModel) {
  const Spec spec = small_spec();
  const MeshShape mesh{.data = 3, .tensor = 2, .pipeline = 2};
  for (int rank = 0; rank < 12; ++rank) {
    const Layout layout = layout_of(spec, mesh, rank);
    EXPECT_EQ(layout.tensor_rank, rank % 2);
    EXPECT_EQ(layout.part.embedding, rank < 6);
    EXPECT_EQ(layout.part.head, rank >= 6);
  }
  int64_t held = 0, replicated = 0;
  for (const Layout& layout : layouts_of_replica(spec, mesh)) {
    const ParameterTable table(spec, InitScheme::gpt2, layout);
    for (const Parameter& p : table.all()) {
      const bool copy =
          (layout.tensor_rank > 0 && p.is_whole()) || (p.name == "embedding.token.weight" && layout.part.head);
      (copy ? replicated : held) += p.stored().elements();
    }
  }
  EXPECT_EQ(held, ParameterTable(spec).total());
  EXPECT_GT(replicated, 0);
}

TEST(MeshLayout, StagesAreThoseOfAList) {
  Spec spec = small_spec();
  spec.layers = 6;
  const std::vector<ModelPart> parts = stages_of(spec, {.data = 1, .pipeline = 3, .stages = {1, 4, 1}});
  EXPECT_EQ(parts[1], (ModelPart{.first_layer = 1, .last_layer = 5, .embedding = false, .head = false}));
  EXPECT_EQ(parts[2], (ModelPart{.first_layer = 5, .last_layer = 6, .embedding = false, .head = true}));
  EXPECT_ERROR(stages_of(spec, {.data = 1, .pipeline = 2, .stages = {4, 3}}), ErrorKind::config,
               "mesh.stages 4,3 are 2 stages of 7 layers, but mesh.pipeline is 2 and the model has 6 layers; ");
  EXPECT_ERROR(stages_of(spec, {.data = 1, .pipeline = 2, .stages = {6}}), ErrorKind::config,
               "are 1 stage of 6 layers");
  EXPECT_ERROR(stages_of(spec, {.data = 1, .pipeline = 2, .stages = {6, 0}}), ErrorKind::config,
               "mesh.stages 6,0 has a stage without a layer; every one needs one or more, ");
}

TEST(MeshLayout, StagesHaveChunksInTurn) {
  Spec spec = small_spec();
  spec.layers = 9;
  const MeshShape mesh{.data = 1, .tensor = 2, .pipeline = 2, .stages = {2, 2, 3, 2}, .chunks = 2};
  const Layout first = layout_of(spec, mesh, 0), last = layout_of(spec, mesh, 3);
  EXPECT_EQ(first.parts(), (std::vector<ModelPart>{{0, 2, true, false}, {4, 7, false, false}}));
  EXPECT_EQ(last.parts(), (std::vector<ModelPart>{{2, 4, false, false}, {7, 9, false, true}}));
  // Gradients become ready from the last chunk to the first.
  const ParameterTable table(spec, InitScheme::gpt2, last);
  std::vector<std::string> blocks;
  for (const Parameter& p : table.all()) {
    if (p.name.ends_with("norm1.weight")) blocks.push_back(p.name);
    if (p.name.starts_with("block.")) {
      EXPECT_EQ(p.group, table.block_group(p.name[6] - '0')) << p.name;
    }
  }
  EXPECT_EQ(blocks, (std::vector<std::string>{"block.8.norm1.weight", "block.7.norm1.weight", "block.3.norm1.weight",
                                              "block.2.norm1.weight"}));
  std::vector<ParameterRange> ranges = table.ready_ranges_of(last.parts()[1]),
                              rest = table.ready_ranges_of(last.parts()[0]);
  EXPECT_EQ(ranges.size(), 3u);
  ranges.insert(ranges.end(), rest.begin(), rest.end());
  EXPECT_EQ(ranges, table.ready_ranges());
  EXPECT_EQ(ParameterTable(spec, InitScheme::gpt2, first).ready_ranges().size(), 6u);
  // (p - 1) / v of m + (p - 1) / v is lost, and 3 + 2 layers wait for 2 + 2 and the head, or the other way round.
  Spec even = spec;
  even.layers = 8;
  even.head = HeadKind::classifier;
  EXPECT_NEAR(pipeline_use(even, {.data = 1, .pipeline = 4, .chunks = 2}, 8), 8 / 9.5, 1e-12);
}

TEST(MeshLayout, ChunksThatDoNotFitAreRefusedWithThoseThatDo) {
  Spec spec = small_spec();
  spec.layers = 7;
  EXPECT_ERROR(stages_of(spec, {.data = 1, .pipeline = 3, .chunks = 3}), ErrorKind::config,
               "mesh.chunks 3 of 3 pipeline stages are 9 parts, more than the model's 7 layers; 1 to 2 fit");
  EXPECT_ERROR(stages_of(spec, {.data = 1, .pipeline = 1, .chunks = 2}), ErrorKind::config,
               "mesh.chunks 2 cuts the layers of pipeline stages further, but mesh.pipeline is 1");
  EXPECT_ERROR(stages_of(spec, {.data = 1, .pipeline = 2, .stages = {4, 3}, .chunks = 2}), ErrorKind::config,
               "mesh.stages 4,3 are 2 stages of 7 layers, but mesh.pipeline is 2 with 2 chunks each, 4 parts, and the "
               "model has 7 layers");
}

TEST(MeshLayout, WhatDoesNotFitIsRefusedWithWhatDoes) {
  const Spec spec = small_spec();
  EXPECT_ERROR(stages_of(spec, {.data = 1, .pipeline = 3}), ErrorKind::config,
               "mesh.pipeline is 3, but the model has only 2 layers; set --mesh.pipeline 2 or less");
  EXPECT_ERROR(layout_of(spec, {.data = 1, .tensor = 3, .pipeline = 1}, 0), ErrorKind::config,
               "tensor 3 does not divide 2 heads; 1, 2 do");
}

}  // namespace
}  // namespace trireme
