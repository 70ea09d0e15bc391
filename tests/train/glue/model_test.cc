#include "train/glue/model.h"

#include <gtest/gtest.h>

#include "checkpoint/huggingface/huggingface.h"
#include "optim/optimizer.h"
#include "tests/support/paths.h"

namespace trireme {
namespace {

std::vector<float> values_of(const TrainingState& state, const Parameter& parameter) {
  std::vector<float> values(static_cast<size_t>(parameter.stored_shape.count()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = to_float(state.weights().as<bf16_t>()[parameter.offset + static_cast<int64_t>(i)]);
  return values;
}

TEST(GlueModel, ClassesAreReorderedForEveryShardingOfTheState) {
  const std::string folder = source_dir() + "/tests/golden/bert-classifier";
  PretrainedModel model{folder, read_huggingface_spec(folder, HeadKind::classifier), nullptr, 0, {}};
  const ParameterTable table(model.spec);
  const int64_t classes = model.spec.classes;
  TrainingState plain(table, DType::bf16, true);
  load_pretrained(model, table, 1, plain);
  for (int64_t i = 0; i < classes; ++i) model.class_order.push_back((i + 1) % classes);
  for (const ShardChoice shard : {ShardChoice::none, ShardChoice::optimizer})
    for (int rank = 0; rank < 3; ++rank) {
      OptimizerOptions options;
      options.shard = shard;
      TrainingState state(table, DType::bf16, true, kept_states(table, options, 3, rank));
      EXPECT_FALSE(load_pretrained(model, table, 1, state));
      for (const Parameter& parameter : table.all()) {
        std::vector<float> want = values_of(plain, parameter);
        if (parameter.name.starts_with("head.out."))
          std::rotate(want.begin(), want.begin() + static_cast<ptrdiff_t>(want.size()) / classes, want.end());
        EXPECT_EQ(values_of(state, parameter), want) << parameter.name << ", rank " << rank;
      }
    }
}

}  // namespace
}  // namespace trireme
