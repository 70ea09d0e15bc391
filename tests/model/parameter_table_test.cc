#include "model/parameter_table.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "model/presets.h"
#include "tests/support/expect_error.h"
#include "tests/support/layouts.h"

namespace trireme {
namespace {

TEST(ParameterTable, CountsThePublishedGpt2Sizes) {
  EXPECT_EQ(ParameterTable(preset("gpt2").spec).total(), 124'439'808);
  EXPECT_EQ(ParameterTable(preset("gpt2-medium").spec).total(), 354'823'168);
  EXPECT_EQ(ParameterTable(preset("gpt2-large").spec).total(), 774'030'080);
  EXPECT_EQ(ParameterTable(preset("gpt2-xl").spec).total(), 1'557'611'200);
}

TEST(ParameterTable, NeverOverlapsAndKeepsGradientReadyOrder) {
  const ParameterTable table(preset("gpt2-124m").spec);
  int64_t end = 0;
  std::set<std::string> names;
  for (const Parameter& p : table.all()) {
    EXPECT_GE(p.offset, end) << p.name;
    EXPECT_EQ(p.offset % 32, 0) << p.name;
    EXPECT_TRUE(names.insert(p.name).second) << p.name;
    end = p.offset + p.count();
  }
  EXPECT_LE(end, table.flat_count());
  EXPECT_EQ(table.all().front().name, "embedding.token.weight");
  EXPECT_EQ(table.all().back().name, "embedding.position.weight");
  EXPECT_GT(table.find("block.10.norm1.weight").offset, table.find("block.11.mlp.out.weight").offset);
}

TEST(ParameterTable, GivesTheTiedMatrixASecondGradientSum) {
  Spec spec = preset("gpt2-124m").spec;
  const ParameterTable tied(spec);
  EXPECT_EQ(tied.gradient_count() - tied.flat_count(), 50304 * 768);
  spec.tied_head = false;
  const ParameterTable untied(spec);
  EXPECT_EQ(untied.gradient_count(), untied.flat_count());
  EXPECT_EQ(untied.total() - tied.total(), 50257 * 768);
}

TEST(ParameterTable, FinishesEveryGradientOnceInAscendingRanges) {
  for (const bool tied : {true, false}) {
    Spec spec = preset("gpt2-124m").spec;
    spec.tied_head = tied;
    const ParameterTable table(spec);
    ASSERT_EQ(table.ready_ranges().size(), 14u);
    int64_t end = 0;
    for (const ParameterRange& range : table.ready_ranges()) {
      EXPECT_EQ(range.begin, end);
      end = range.end;
    }
    EXPECT_EQ(end, table.gradient_count());
    EXPECT_EQ(table.ready_ranges()[1].begin, table.find("block.11.mlp.out.bias").offset);
  }
}

TEST(ParameterTable, LeavesOutBiasesThatTheSpecDoesNotHave) {
  Spec spec = preset("gpt2-124m").spec;
  spec.biases = {.qkv = false, .attention_out = false, .mlp_in = false, .mlp_out = false, .norm = false};
  const ParameterTable table(spec);
  for (const Parameter& p : table.all()) EXPECT_EQ(p.name.find("bias"), std::string::npos) << p.name;
}

TEST(ParameterTable, NamesTheNearestParameter) {
  try {
    (void)ParameterTable(preset("gpt2").spec).find("block.3.attention.qkv.wieght");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(
        e.what(),
        "the model has no parameter \"block.3.attention.qkv.wieght\"; the nearest is \"block.3.attention.qkv.weight\"");
  }
}

/// Four blocks of 8 heads; 13 token ids in 16 rows.
Spec divisible_spec() {
  Spec spec;
  spec.vocabulary = 13;
  spec.vocabulary_rows = 16;
  spec.context = 6;
  spec.layers = 4;
  spec.heads = 8;
  spec.width = 32;
  spec.inner_width = 64;
  return spec;
}

TEST(ParameterTable, CutsLinearsByHeadByColumnAndByTokenId) {
  const ParameterTable table(divisible_spec(), InitScheme::gpt2, {{}, 1, 2});
  const struct {
    const char* name;
    Shape global;
    Box box;
  } cut[] = {
      {"block.0.attention.qkv.weight", {96, 32}, {{48, 0}, {48, 32}}},  // heads 4 to 7: q, k and v of each
      {"block.0.attention.qkv.bias", {96}, {{48}, {48}}},
      {"block.0.attention.out.weight", {32, 32}, {{0, 16}, {32, 16}}},
      {"block.0.attention.out.bias", {32}, {{0}, {32}}},
      {"block.0.mlp.in.weight", {64, 32}, {{32, 0}, {32, 32}}},
      {"block.0.mlp.in.bias", {64}, {{32}, {32}}},
      {"block.0.mlp.out.weight", {32, 64}, {{0, 32}, {32, 32}}},
      {"block.0.mlp.out.bias", {32}, {{0}, {32}}},
      {"block.0.norm1.weight", {32}, {{0}, {32}}},
      {"embedding.token.weight", {16, 32}, {{8, 0}, {8, 32}}},
      {"embedding.position.weight", {6, 32}, {{0, 0}, {6, 32}}},
  };
  for (const auto& [name, global, box] : cut) {
    const Parameter& p = table.find(name);
    EXPECT_EQ(p.global_shape, global) << name;
    EXPECT_EQ(p.box, box) << name;
    EXPECT_EQ(p.shape, box.count) << name;
    EXPECT_EQ(p.is_whole(), box == whole_box(global)) << name;
  }
  EXPECT_EQ(table.find("embedding.token.weight").stored(), (Box{{8, 0}, {5, 32}})) << "13 ids: 3 rows are padding";
  const ParameterTable last(divisible_spec(), InitScheme::gpt2, {{}, 7, 8});
  EXPECT_TRUE(last.find("embedding.token.weight").stored().empty()) << "rows 14 and 15 are padding";
  EXPECT_EQ(last.find("embedding.token.weight").shape, (Shape{2, 32}));
}

TEST(ParameterTable, TheBoxesOfAllRanksHoldEachElementTheRightNumberOfTimes) {
  const ParameterTable whole(divisible_spec());
  for (const int tensor : {1, 2, 4, 8}) {
    for (const int pipeline : {1, 2, 4}) {
      std::map<std::string, std::vector<int>> held;
      for (const Layout& layout : layouts_of(divisible_spec(), tensor, pipeline)) {
        const ParameterTable table(divisible_spec(), InitScheme::gpt2, layout);
        int64_t end = 0;
        for (const Parameter& p : table.all()) {
          const Parameter& all = whole.find(p.name);
          ASSERT_EQ(p.global_shape, all.shape);
          EXPECT_GE(p.offset, end);
          EXPECT_TRUE(p.trained());
          end = p.offset + p.count();
          std::vector<int>& count = held[p.name];
          count.resize(static_cast<size_t>(all.count()));
          for (int64_t i = 0; i < p.count(); ++i) ++count[static_cast<size_t>(offset_of(all.box, index_at(p.box, i)))];
        }
        EXPECT_LE(end, table.flat_count());
      }
      for (const Parameter& p : whole.all()) {
        const bool cut = !ParameterTable(divisible_spec(), InitScheme::gpt2, {{}, 0, tensor}).find(p.name).is_whole();
        const int stages = p.name == "embedding.token.weight" && pipeline > 1 ? 2 : 1;  // tied: first and last
        EXPECT_EQ(held[p.name], std::vector<int>(static_cast<size_t>(p.count()), stages * (cut ? 1 : tensor)))
            << p.name << " on tensor " << tensor << " x pipeline " << pipeline;
      }
    }
  }
}

TEST(ParameterTable, APartOfAModelHasTheGroupsOfItsLayers) {
  const Spec spec = divisible_spec();
  const ParameterTable first(spec, InitScheme::gpt2, {{0, 2, true, false}}),
      middle(spec, InitScheme::gpt2, {{1, 3, false, false}}), last(spec, InitScheme::gpt2, {{2, 4, false, true}});
  EXPECT_EQ(first.ready_ranges().size(), 3u);
  EXPECT_EQ(middle.ready_ranges().size(), 2u);
  EXPECT_EQ(last.ready_ranges().size(), 3u);
  for (const ParameterTable* table : {&first, &middle, &last}) {
    int64_t end = 0;
    for (const ParameterRange& range : table->ready_ranges()) {
      EXPECT_EQ(range.begin, end);
      end = range.end;
    }
    EXPECT_EQ(end, table->gradient_count());
    EXPECT_EQ(table->gradient_count(), table->flat_count()) << "head and embedding are not both here";
    EXPECT_FALSE(table->sums_twice());
    EXPECT_FALSE(table->is_whole());
    for (const Parameter& p : table->all()) {
      const ParameterRange range = table->ready_ranges()[p.group];
      EXPECT_TRUE(range.begin <= p.offset && p.offset + p.count() <= range.end) << p.name;
    }
  }
  EXPECT_EQ(first.find("block.1.norm1.weight").group, first.block_group(1));
  EXPECT_EQ(first.find("embedding.token.weight").group, first.embedding_group());
  EXPECT_EQ(middle.find("block.2.norm1.weight").group, middle.block_group(2));
  EXPECT_EQ(middle.block_group(2), 0u);
  EXPECT_EQ(last.find("block.2.norm1.weight").group, last.block_group(2));
  EXPECT_EQ(last.find("embedding.token.weight").group, last.head_group());
  EXPECT_EQ(first.look_up("norm.weight"), nullptr);
  EXPECT_EQ(last.look_up("block.1.norm1.weight"), nullptr);
  EXPECT_TRUE(ParameterTable(spec).is_whole());
}

TEST(ParameterTable, RefusesATensorSizeWithThoseThatFit) {
  Spec spec = divisible_spec();
  spec.heads = 16;
  EXPECT_ERROR(ParameterTable(spec, InitScheme::gpt2, {{}, 0, 3}), ErrorKind::config,
               "tensor 3 does not divide 16 heads; 1, 2, 4, 8, 16 do");
  spec.inner_width = 68;
  EXPECT_ERROR(ParameterTable(spec, InitScheme::gpt2, {{}, 0, 8}), ErrorKind::config,
               "tensor 8 does not divide 68 columns of the MLP's inner width; 1, 2, 4, 17, 34, 68 do");
  spec.inner_width = 64;
  spec.vocabulary_rows = 13;
  EXPECT_ERROR(ParameterTable(spec, InitScheme::gpt2, {{}, 1, 2}), ErrorKind::config,
               "tensor 2 does not divide 13 rows of the token matrix; 1, 13 do");
  EXPECT_ERROR(ParameterTable(spec, InitScheme::gpt2, {{}, 2, 2}), ErrorKind::config,
               "tensor rank 2 of 2: expected 0 to 1");
}

TEST(ParameterTable, DecaysMatricesAlone) {
  const ParameterTable table(divisible_spec());
  for (const Parameter& p : table.all())
    EXPECT_EQ(p.rule == UpdateRule::adamw, p.name.ends_with("weight") && p.name.find("norm") == p.name.npos) << p.name;
}

TEST(Spec, SaysWhichHeadsDivideTheWidth) {
  Spec spec = preset("gpt2").spec;
  spec.heads = 7;
  spec.width = 48;
  try {
    spec.validate();
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "model: 7 heads do not divide width 48; heads that do: 1, 2, 3, 4, 6, 8, 12, 16, 24, 48");
  }
}

TEST(Spec, CountsTheModelFlopsOfATrainedToken) {
  EXPECT_NEAR(train_flops_per_token(preset("gpt2").spec, 1024), 798e6, 0.5e6);
}

}  // namespace
}  // namespace trireme
