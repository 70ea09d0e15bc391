#include "model/parameter_table.h"

#include <gtest/gtest.h>

#include "model/presets.h"

#include <set>

#include "base/error.h"

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
