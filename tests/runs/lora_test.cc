// Complete runs that train low-rank adapters.

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/huggingface/huggingface.h"
#include "checkpoint/safetensors/safetensors.h"
#include "model/adapters.h"
#include "tests/runs/training_fixture.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Flags = std::vector<std::string>;

class LoraTraining : public TrainingFixture {
 protected:
  static Flags with(Flags flags, const Flags& more) {
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }
  Outcome done(const std::string& name, const Flags& flags, int ranks = 1) const {
    const Outcome outcome =
        run(ranks == 1 ? trireme_command(train(name, flags)) : mpirun_command(ranks, train(name, flags)));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome;
  }
  void expect_refused(const Flags& flags, const std::string& message, const std::string& name = "refused") const {
    const Outcome outcome = run(trireme_command(train(name, flags)));
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(message));
  }
  std::map<std::string, std::vector<float>> weights_by_name(const std::string& run) const {
    const CheckpointFolder folder = open_checkpoint(path(run));
    const ParameterTable table(folder.facts.spec);
    TrainingState state(table, DType::f32, false);
    load_weights(folder, table, state);
    std::map<std::string, std::vector<float>> weights;
    for (const Parameter& parameter : table.all()) {
      std::vector<float>& values = weights[parameter.name];
      values.resize(static_cast<size_t>(parameter.stored_shape.count()));
      state.read_master(parameter, values);
    }
    return weights;
  }
  /// Validation loss of a model as it is.
  double loss_of(const std::string& model, const Flags& flags = {}) const {
    const Outcome outcome = done("evaluated", with({"--model.init", path(model), "--evaluation.only", "true"}, flags));
    const size_t at = outcome.output.find("validation loss ");
    EXPECT_NE(at, std::string::npos) << outcome.output;
    return std::stod(outcome.output.substr(at + std::string("validation loss ").size()));
  }
};

const Flags kAll{"--lora.rank", "4", "--lora.targets", "all-linear", "--lora.alpha", "8"};

TEST_F(LoraTraining, ResumesOnEveryLayoutAndLeavesTheBaseAsItWas) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  done("base", {"--model.layers", "4"});
  const auto run_to = [&](const std::string& name, int ranks, const char* steps, const Flags& layout) {
    return done(name,
                with(with({"--model.init", path("base"), "--model.layers", "4", "--optim.decay-steps", "24",
                           "--optim.epsilon", "1e-3", "--run.steps", steps},
                          kAll),
                     layout),
                ranks);
  };
  const Outcome one = run_to("one", 1, "24", {});
  EXPECT_THAT(one.output, HasSubstr("c_attn, attn.c_proj, c_fc, mlp.c_proj in 0-3: rank 4, scale 2\n"));
  EXPECT_THAT(one.output, HasSubstr("M parameters, in 32 of 84 tensors"));
  run_to("changes", 4, "4", {"--mesh.tensor", "2", "--mesh.pipeline", "2"});
  run_to("changes", 2, "8", {"--optim.shard", "optimizer"});
  run_to("changes", 4, "12", {"--mesh.pipeline", "2", "--mesh.chunks", "2", "--batch.micro", "3"});
  run_to("changes", 3, "16", {"--optim.shard", "parameters", "--batch.micro", "2"});
  run_to("changes", 2, "20", {"--optim.shard", "gradients"});
  run_to("changes", 2, "24", {"--mesh.tensor", "2", "--mesh.sequence", "true"});
  const auto want = losses("one"), got = losses("changes");
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [step, loss] : want) EXPECT_NEAR(got.at(step), loss, 1e-5 * loss) << "step " << step;
  const auto base = weights_by_name("base"), after = weights_by_name("changes");
  for (const auto& [name, values] : base) EXPECT_EQ(values, after.at(name)) << name;
  EXPECT_EQ(after.size(), base.size() + 32);
}

TEST_F(LoraTraining, ResumesWithTheSameBitsAndOnlyWithTheSameAdapters) {
  done("base", {});
  const Flags flags = with(
      {"--model.init", path("base"), "--optim.decay-steps", "8", "--lora.dropout", "0.1", "--precision.dtype", "bf16"},
      kAll);
  done("never", with(flags, {"--run.steps", "8"}));
  done("run", with(flags, {"--run.steps", "3"}));
  done("run", with(flags, {"--run.steps", "8"}));
  EXPECT_EQ(weights_by_name("run"), weights_by_name("never"));
  expect_refused({"--model.init", path("base"), "--lora.rank", "2", "--run.steps", "9"}, "lora.rank", "run");
  expect_refused({"--run.steps", "9"}, "impossible: another model", "run");
  expect_refused({"--model.init", path("run"), "--lora.rank", "2"},
                 "the model that this run starts from has adapters, of a run with lora.rank");
}

TEST_F(LoraTraining, ItsExportsAndItsAdapterGiveTheLossOfTheRun) {
  done("base", {});
  const Outcome outcome =
      done("run", with({"--model.init", path("base"), "--optim.learning-rate", "1e-2", "--lora.rslora", "true",
                        "--lora.modules-to-save", "ln_f", "--lora.rank-pattern", "c_proj=3"},
                       kAll));
  EXPECT_THAT(outcome.output, HasSubstr("trained"));
  const auto exports = [&](const Flags& words) {
    const Outcome exported = run(trireme_command(with({"export"}, words)));
    EXPECT_EQ(exported.code, 0) << exported.output;
    return exported.output;
  };
  EXPECT_THAT(exports({"--model", path("run"), "--output", path("adapter")}),
              AllOf(HasSubstr("exported the adapters of " + path("run")),
                    HasSubstr("the adapter names " + path("base") + " as its base model, which PEFT cannot load")));
  EXPECT_THAT(exports({"--model", path("run"), "--output", path("named"), "--base", "owner/name"}),
              Not(HasSubstr("PEFT cannot load")));
  EXPECT_EQ(read_json(path("named/adapter_config.json"), 1 << 20).at("base_model_name_or_path"), "owner/name");
  EXPECT_THAT(exports({"--model", path("run"), "--merge", "--output", path("merged")}),
              HasSubstr(" with its adapters (step 20, "));
  exports({"--model", path("base"), "--adapter", path("adapter"), "--merge", "--output", path("again")});
  const Json config = read_json(path("adapter/adapter_config.json"), 1 << 20);
  EXPECT_EQ(config.at("use_rslora"), true);
  EXPECT_EQ(config.at("modules_to_save"), Json({"transformer.ln_f"}));
  EXPECT_EQ(config.at("target_modules"), Json({"c_attn", "c_fc", "c_proj"}));
  EXPECT_EQ(config.at("r"), 3);
  EXPECT_EQ(config.at("rank_pattern").size(), 4U);
  const double base = loss_of("base"), merged = loss_of("merged");
  EXPECT_LT(merged, base - 0.01);
  EXPECT_NEAR(loss_of("again"), merged, 2e-4);
  EXPECT_NEAR(loss_of("base", {"--lora.adapter", path("adapter")}), merged, 2e-4);
  // Training goes on from the adapter as it would from the run.
  done("next", {"--model.init", path("base"), "--lora.adapter", path("adapter"), "--run.steps", "2"});
  const auto start = weights_by_name("run"), next = weights_by_name("next");
  EXPECT_EQ(next.at("block.0.mlp.in.weight"), start.at("block.0.mlp.in.weight"));
  EXPECT_NE(next.at("norm.weight"), start.at("norm.weight"));
  EXPECT_NE(next.at("block.1.mlp.out.lora_A"), start.at("block.1.mlp.out.lora_A"));
  done("next", {"--model.init", path("base"), "--lora.adapter", path("adapter"), "--run.steps", "3"});

  const auto refuses = [&](const Flags& words, const std::string& message) {
    const Outcome refused = run(trireme_command(with({"export", "--output", path("refused")}, words)));
    EXPECT_EQ(refused.code, 2) << refused.output;
    EXPECT_THAT(refused.output, HasSubstr(message));
  };
  refuses({"--model", path("run"), "--adapter", path("adapter"), "--merge"}, "is a run with adapters already");
  refuses({"--model", path("run"), "--dtype", "bf16"}, "--dtype has no effect on adapters");
  refuses({"--model", path("run"), "--format", "neox"}, "--format has no effect on adapters");
  refuses({"--model", path("base"), "--merge"}, "has no adapters");
}

TEST_F(LoraTraining, TrainsMagnitudesOnEveryLayout) {
  done("base", {});
  const Flags flags = with(
      {"--model.init", path("base"), "--optim.decay-steps", "12", "--optim.epsilon", "1e-3", "--lora.dora", "true"},
      kAll);
  const Outcome one = done("one", with(flags, {"--run.steps", "12"}));
  EXPECT_THAT(one.output, HasSubstr("c_attn, attn.c_proj, c_fc, mlp.c_proj in 0-1: rank 4, scale 2, magnitudes"));
  const double start = loss_of("base"), first = losses("one").at(1);
  done("plain", with({"--model.init", path("base"), "--run.steps", "1"}, kAll));
  EXPECT_NEAR(first, losses("plain").at(1), 1e-5) << "it begins as the base model";
  done("stopped", with(flags, {"--run.steps", "5"}));
  done("stopped", with(flags, {"--run.steps", "12"}));
  EXPECT_EQ(weights_by_name("stopped"), weights_by_name("one"));
  const auto exports = [&](const Flags& words) {
    const Outcome exported = run(trireme_command(with({"export"}, words)));
    EXPECT_EQ(exported.code, 0) << exported.output;
  };
  exports({"--model", path("one"), "--output", path("adapter")});
  exports({"--model", path("one"), "--merge", "--output", path("merged")});
  EXPECT_EQ(read_json(path("adapter/adapter_config.json"), 1 << 20).at("use_dora"), true);
  const double merged = loss_of("merged");
  EXPECT_LT(merged, start);
  EXPECT_NEAR(loss_of("base", {"--lora.adapter", path("adapter")}), merged, 2e-4);
  expect_refused(with({"--model.init", path("base"), "--run.steps", "13"}, kAll), "lora.dora", "one");
  if (mpirun_path().empty()) return;
  const auto want = losses("one");
  const auto expect_same = [&](const std::string& name, int ranks, const Flags& layout) {
    done(name, with(with(flags, {"--run.steps", "12"}), layout), ranks);
    for (const auto& [step, loss] : losses(name)) EXPECT_NEAR(loss, want.at(step), 1e-5 * loss) << name << " " << step;
  };
  expect_same("tensor", 2, {"--mesh.tensor", "2", "--mesh.sequence", "true"});
  expect_same("shared", 2, {"--optim.shard", "parameters"});
}

TEST_F(LoraTraining, ConfigShowCountsWhatIsTrained) {
  const Outcome shown =
      run(trireme_command(with({"config", "show", path("config.yaml"), "--model.vocabulary", "31"}, kAll)));
  EXPECT_EQ(shown.code, 0) << shown.output;
  EXPECT_THAT(shown.output, HasSubstr("# Trained: 0.00M of 0.03M parameters, in 16 of 44 tensors. Frozen: 0.03M.\n"));
  EXPECT_THAT(shown.output, HasSubstr("targets: \"all-linear\""));
  const Outcome ranks = run(trireme_command(with({"config", "show", path("config.yaml"), "--ranks", "2"}, kAll)));
  EXPECT_EQ(ranks.code, 0) << ranks.output;
}

TEST_F(LoraTraining, RefusesWhatHasNoEffectOrFitsNothing) {
  expect_refused({"--lora.alpha", "8"},
                 "lora.alpha (flag --lora.alpha) has no effect without lora.rank; remove it, or "
                 "set --lora.rank 16");
  expect_refused({"--lora.dropout", "0.1"}, "lora.dropout (flag --lora.dropout) has no effect without lora.rank");
  expect_refused({"--lora.adapter", "x", "--lora.targets", "c_fc"},
                 "lora.targets (flag --lora.targets) has no effect beside lora.adapter, which has its own; remove it");
  expect_refused({"--lora.adapter", "x", "--lora.rank", "4"}, "are both set; the adapter has its ranks");
  expect_refused({"--lora.rank", "4", "--train.only", "block.1"},
                 "train.only is \"block.1\", but a run with lora.rank trains its adapters only");
  expect_refused({"--lora.rank", "4", "--lora.targets", "q_proj"},
                 "lora.targets: \"q_proj\" matches no linear of this model (gpt2); the nearest name is \"c_proj\"");
  expect_refused({"--lora.rank", "4", "--lora.modules-to-save", "lm_head"}, "\"lm_head\" is tied: embedding and head");
  expect_refused({"--lora.dora", "true"}, "lora.dora (flag --lora.dora) has no effect without lora.rank");
  expect_refused({"--lora.rank", "4", "--lora.dora", "true", "--lora.dropout", "0.1"},
                 "lora.dropout is 0.1, but adapters with magnitudes (DoRA) have no dropout here; set lora.dropout 0");
  if (mpirun_path().empty()) return;
  const Outcome cut =
      run(mpirun_command(2, train("refused", with({"--lora.dropout", "0.1", "--mesh.tensor", "2"}, kAll))));
  EXPECT_EQ(cut.code, 2) << cut.output;
  EXPECT_THAT(cut.output, HasSubstr("lora.dropout is 0.1, but mesh.tensor 2 cuts the inputs of block.0.attention.out, "
                                    "whose dropout would depend on the layout"));
}

}  // namespace
}  // namespace trireme
