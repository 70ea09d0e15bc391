// Complete runs that train only some parameters.

#include <gmock/gmock.h>

#include "checkpoint/checkpoint_folder.h"
#include "tests/runs/glue_fixture.h"
#include "tests/runs/training_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using Flags = std::vector<std::string>;

/// f32 values by name.
using Weights = std::map<std::string, std::vector<float>>;

Weights weights_by_name(const ParameterTable& table, const TrainingState& state) {
  Weights weights;
  for (const Parameter& parameter : table.all()) {
    std::vector<float>& values = weights[parameter.name];
    values.resize(static_cast<size_t>(parameter.stored_shape.count()));
    state.read_master(parameter, values);
  }
  return weights;
}

class FrozenTraining : public TrainingFixture {
 protected:
  Weights weights_of(const std::string& run) const {
    const CheckpointFolder folder = open_checkpoint(path(run));
    const ParameterTable table(folder.facts.spec);
    TrainingState state(table, DType::f32, false);
    load_weights(folder, table, state);
    return weights_by_name(table, state);
  }
  Outcome go_on(const std::string& name, int ranks, const char* steps, Flags flags) const {
    for (const char* more : {"--optim.decay-steps", "24", "--optim.epsilon", "1e-3", "--run.steps", steps})
      flags.emplace_back(more);
    const Outcome outcome =
        run(ranks == 1 ? trireme_command(train(name, flags)) : mpirun_command(ranks, train(name, flags)));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome;
  }
};

TEST_F(FrozenTraining, ResumesOnEveryLayoutAndLeavesTheFrozenPartAsItWas) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const Flags freeze{"--model.layers", "4", "--train.freeze", "embedding,block.0-1,*.bias"};
  const auto run_to = [&](const std::string& name, int ranks, const char* steps, Flags layout) {
    layout.insert(layout.end(), freeze.begin(), freeze.end());
    return go_on(name, ranks, steps, std::move(layout));
  };
  EXPECT_THAT(run_to("one", 1, "24", {}).output, HasSubstr("M parameters, in "));
  run_to("changes", 4, "4", {"--mesh.tensor", "2", "--mesh.pipeline", "2"});
  run_to("changes", 2, "8", {"--optim.shard", "optimizer"});
  run_to("changes", 4, "12", {"--mesh.pipeline", "2", "--mesh.chunks", "2", "--batch.micro", "3"});
  run_to("changes", 3, "16", {"--optim.shard", "parameters", "--batch.micro", "2"});
  run_to("changes", 2, "20", {"--optim.shard", "gradients"});
  run_to("changes", 2, "24", {"--mesh.tensor", "2", "--mesh.sequence", "true"});
  const auto one = losses("one"), changes = losses("changes");
  ASSERT_EQ(changes.size(), one.size());
  for (const auto& [step, loss] : one) EXPECT_NEAR(changes.at(step), loss, 1e-5 * loss) << "step " << step;

  const CheckpointFolder folder = open_checkpoint(path("one"));
  const ParameterTable table(folder.facts.spec);
  TrainingState start(table, DType::f32, false);
  initialize(start, table, 1337);
  const Weights before = weights_by_name(table, start), after = weights_of("changes");
  const Trained trained("", "embedding,block.0-1,*.bias");
  for (const auto& [name, values] : before) EXPECT_EQ(values == after.at(name), !trained.includes(name)) << name;
}

TEST_F(FrozenTraining, ResumesOnlyWithTheSameParametersFrozen) {
  go_on("run", 1, "4", {"--train.only", "block.1"});
  const Outcome other = run(trireme_command(train("run", {"--train.only", "block.0"})));
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.output, HasSubstr("was trained with other frozen parameters: block.1.mlp.out.bias was trained "
                                      "there and is frozen now"));
  go_on("run", 1, "6", {"--train.only", "block.1.*"});
  go_on("next", 1, "2", {"--model.init", path("run"), "--train.only", "block.0"});
  EXPECT_EQ(weights_of("run").at("block.1.mlp.in.weight"), weights_of("next").at("block.1.mlp.in.weight"));
}

TEST_F(FrozenTraining, ConfigShowCountsAndNamesWhatDoesNotMatch) {
  const Outcome shown = run(trireme_command({"config", "show", path("config.yaml"), "--train.only", "block.1.mlp"}));
  EXPECT_EQ(shown.code, 0) << shown.output;
  EXPECT_THAT(shown.output, HasSubstr("# Trained: 0.01M of 0.03M parameters, in 4 of 28 tensors. Frozen: 0.02M.\n"));
  const Outcome wrong = run(trireme_command(train("run", {"--train.freeze", "blocks.1"})));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.output, HasSubstr("train.freeze: \"blocks.1\" matches no parameter of the model; the nearest name "
                                      "is \"block.1\""));
  EXPECT_FALSE(std::filesystem::exists(path("run") + "/latest"));
}

class FrozenGlue : public GlueFixture {};

TEST_F(FrozenGlue, TrainsTheSameOnSeveralRanksAndExportsTheFrozenPartUnchanged) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const Flags flags{"--do_train", "--max_steps", "6", "--train.freeze", "embedding,block.0"};
  const auto more = [&](Flags layout, const char* batch) {
    layout.insert(layout.end(), flags.begin(), flags.end());
    layout.insert(layout.end(), {"--per_device_train_batch_size", batch});
    return layout;
  };
  const Outcome one = run_on(1, "one", more({}, "8"));
  ASSERT_EQ(one.code, 0) << one.output;
  EXPECT_THAT(one.output, HasSubstr("trained"));
  for (const auto& [name, ranks, layout] :
       {std::tuple<const char*, int, Flags>{"shared", 2, {"--optim.shard", "parameters"}},
        {"tensor", 2, {"--mesh.tensor", "2"}}}) {
    const Outcome outcome = run_on(ranks, name, more(layout, name == std::string("shared") ? "4" : "8"));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    expect_same_losses("one", name, 1e-4);
  }
  const Spec spec = read_huggingface_spec(path("one"));
  const ParameterTable table(spec);
  TrainingState before(table, DType::f32, false), after(table, DType::f32, false);
  initialize(before, table, 1);
  load_huggingface(path("model"), spec, table, before, MissingHead::keep);
  load_huggingface(path("one"), spec, table, after);
  const Weights old = weights_by_name(table, before), now = weights_by_name(table, after);
  const Trained trained("", "embedding,block.0");
  for (const auto& [name, values] : old) EXPECT_EQ(values == now.at(name), !trained.includes(name)) << name;
}

}  // namespace
}  // namespace trireme
