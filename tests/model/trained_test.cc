#include "model/trained.h"

#include <gtest/gtest.h>

#include "model/parameter_table.h"
#include "model/train_flops.h"
#include "tests/model/model_fixture.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

TEST(TrainedNames, APatternIsANameOrThePartOfOneBeforeADot) {
  EXPECT_TRUE(matches_name("block.3", "block.3.mlp.in.weight"));
  EXPECT_TRUE(matches_name("block.3.mlp.in.weight", "block.3.mlp.in.weight"));
  EXPECT_FALSE(matches_name("block.3", "block.30.mlp.in.weight"));
  EXPECT_FALSE(matches_name("block", "blocks.3"));
  EXPECT_FALSE(matches_name("mlp", "block.3.mlp.in.weight"));
  EXPECT_TRUE(matches_name("*mlp", "block.3.mlp.in.weight"));
  EXPECT_TRUE(matches_name("*.bias", "block.3.mlp.in.bias"));
  EXPECT_FALSE(matches_name("*.bias", "block.3.mlp.in.weight"));
  EXPECT_TRUE(matches_name("block.*.norm?", "block.3.norm2.weight"));
}

TEST(TrainedNames, ARangeIsAnyWholeNumberInIt) {
  EXPECT_TRUE(matches_name("block.0-5", "block.0.norm1.weight"));
  EXPECT_TRUE(matches_name("block.0-5", "block.5.norm1.weight"));
  EXPECT_FALSE(matches_name("block.0-5", "block.6.norm1.weight"));
  EXPECT_FALSE(matches_name("block.0-5", "block.50.norm1.weight"));
  EXPECT_TRUE(matches_name("block.8-12.mlp", "block.10.mlp.in.weight"));
  EXPECT_FALSE(matches_name("block.8-12.mlp", "block.10.norm1.weight"));
  EXPECT_TRUE(matches_name("block.1.norm1-2", "block.1.norm2.weight"));
}

TEST(TrainedNames, FreezeWinsOverOnly) {
  const Trained trained("block.1, head", "*.bias");
  EXPECT_TRUE(trained.includes("block.1.mlp.in.weight"));
  EXPECT_FALSE(trained.includes("block.1.mlp.in.bias"));
  EXPECT_FALSE(trained.includes("block.0.mlp.in.weight"));
  EXPECT_TRUE(Trained().all() && Trained("", "").all() && !trained.all());
}

TEST(TrainedNames, SaysWhatAPatternShouldBe) {
  std::vector<std::string> names;
  const ParameterTable table(small_spec());
  for (const Parameter& parameter : table.all()) names.push_back(parameter.name);
  EXPECT_ERROR(Trained("", "blok.1").check(names), ErrorKind::config,
               "train.freeze: \"blok.1\" matches no parameter of the model; the nearest name is \"block.1\". The names "
               "of this model begin with embedding, norm, block (docs/training.md lists them)");
  EXPECT_ERROR(Trained("block.1.mlp.inn", "").check(names), ErrorKind::config,
               "train.only: \"block.1.mlp.inn\" matches no parameter of the model; the nearest name is "
               "\"block.1.mlp.in\"");
  EXPECT_ERROR(Trained("block.0", "block").check(names), ErrorKind::config,
               "train.only and train.freeze leave none of the model's 28 parameters to train; freeze fewer of them");
  EXPECT_ERROR(Trained("block.0,,norm", ""), ErrorKind::config,
               "train.only is \"block.0,,norm\", which has an empty pattern; write names separated by commas, such as "
               "embedding,block.0-5");
  Trained("block.0-1", "*.bias").check(names);
}

TEST(TrainedTable, TrainedParametersComeFirstInTheOrderOfAll) {
  for (const bool tied : {true, false}) {
    Spec spec = small_spec();
    spec.tied_head = tied;
    const ParameterTable all(spec), table(spec, InitScheme::gpt2, {}, {"", "block.1.mlp,embedding.position,*.norm1"});
    EXPECT_EQ(table.flat_count(), all.flat_count());
    EXPECT_LT(table.trained_count(), table.flat_count());
    EXPECT_EQ(table.sums_twice(), tied);
    int64_t trained = 0, frozen = table.trained_count();
    for (const Parameter& p : table.all()) {
      int64_t& end = p.trained() ? trained : frozen;
      EXPECT_EQ(p.offset, end) << p.name;
      end += (p.count() + 31) / 32 * 32;
      const WeightRanges& group = table.weights_of(p.group);
      const ParameterRange& range = p.trained() ? group.trained : group.frozen;
      EXPECT_TRUE(range.begin <= p.offset && p.offset + p.count() <= range.end) << p.name;
    }
    EXPECT_EQ(trained, table.trained_count());
    EXPECT_EQ(frozen, table.flat_count());
    EXPECT_EQ(table.total_trained() + 8 * 20 + 20 + 8 * 20 + 8 + 8 * 8 + 4 * 8, table.total());
    int64_t ready = 0;
    for (const ParameterRange& range : table.ready_ranges()) {
      EXPECT_EQ(range.begin, ready);
      ready = range.end;
    }
    EXPECT_EQ(ready, table.gradient_count());
  }
}

TEST(TrainedTable, AFrozenTiedMatrixHasNoSecondSum) {
  const ParameterTable table(small_spec(), InitScheme::gpt2, {}, {"", "embedding"});
  EXPECT_FALSE(table.sums_twice());
  EXPECT_EQ(table.gradient_count(), table.trained_count());
  EXPECT_TRUE(table.ready_ranges().back().empty());
  EXPECT_TRUE(table.tied_matrix().trained.empty());
  EXPECT_FALSE(table.tied_matrix().frozen.empty());
}

TEST(TrainedFlops, FrozenMatricesSaveTheirGradientAndWhatIsBelowAllOfBackward) {
  const Spec spec = small_spec();
  const auto flops = [&](const char* only) {
    return train_flops_per_token(ParameterTable(spec, InitScheme::gpt2, {}, {only, ""}), 8);
  };
  const double all = train_flops_per_token(spec, 8), block = block_products(spec, 0), head = 11 * 8;
  EXPECT_EQ(flops(""), all);
  EXPECT_EQ(flops("*.weight"), all);
  EXPECT_EQ(flops("*.bias,embedding.position"), all - 2 * (2 * block + head));
  // Block 0 has only its forward: a third of its work.
  const double attention = 8 * 8 * visible_keys(spec, 0, 8);
  EXPECT_EQ(flops("block.1"), all - 2 * head - 4 * block - attention);
  EXPECT_EQ(flops("norm"), all - 2 * head - 8 * block - 2 * attention);
}

}  // namespace
}  // namespace trireme
