// Models of other families than GPT-2, trained from scratch by preset, saved, exported and started from again.

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/json_text.h"
#include "tests/runs/training_fixture.h"
#include "tests/support/paths.h"

namespace trireme {
namespace {

class Families : public TrainingFixture {
 protected:
  Outcome done(const std::vector<std::string>& words) {
    const Outcome outcome = run(trireme_command(words));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome;
  }

  /// The fixture's run without its model, which a preset or a folder gives.
  std::vector<std::string> start(const std::string& run_name, const std::vector<std::string>& flags) {
    write_text(path("plain.yaml"),
               fmt::format("data: {{dir: {}}}\nbatch: {{global: 12, sequence: 8}}\n"
                           "optim: {{warmup_steps: 5}}\nevaluation: {{every: 0, batches: 2}}\n"
                           "checkpoint: {{every: 0}}\nlaunch: {{threads: 1}}\nlog: {{every: 1, peak_tflops: 1}}\n",
                           path("")));
    std::vector<std::string> words = {"train", path("plain.yaml"), "--run.dir", path(run_name)};
    words.insert(words.end(), flags.begin(), flags.end());
    return words;
  }

  /// Trains with the flags and returns the config.json of the export that a new run starts from.
  Json train_and_export(std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--run.steps", "40"});
    done(start("run", flags));
    const auto loss = losses("run");
    EXPECT_LT(loss.at(40), loss.at(1) - 0.3);

    done({"export", "--checkpoint", path("run"), "--output", path("model")});
    done(start("again", {"--model.init", path("model"), "--run.steps", "1"}));
    EXPECT_NEAR(losses("again").at(1), loss.at(40), 0.5);
    return read_json(path("model") + "/config.json");
  }
};

TEST_F(Families, OptTrainsFromScratchAndIsExportedAsOpt) {
  const Json config =
      train_and_export({"--model.preset", "opt-8m", "--model.vocabulary", "31", "--optim.schedule", "linear",
                        "--model.dropout", "0.1", "--model.embedding-dropout", "0", "--optim.learning-rate", "1e-2"});
  EXPECT_EQ(config["model_type"], "opt");
  EXPECT_EQ(config["activation_function"], "relu");
  EXPECT_EQ(config["dropout"], 0.1);
  EXPECT_EQ(config["hidden_size"], 128);
}

TEST_F(Families, NeoxTrainsOnAndIsExportedAsNeox) {
  const Json config =
      train_and_export({"--model.init", source_dir() + "/tests/golden/neox-parallel", "--optim.learning-rate", "1e-2"});
  EXPECT_EQ(config["model_type"], "gpt_neox");
  EXPECT_EQ(config["use_parallel_residual"], true);
  EXPECT_EQ(config["rotary_pct"], 0.25);
  EXPECT_EQ(config["tie_word_embeddings"], false);
}

// Without a window it is what Llama's config.json describes, too.
TEST_F(Families, AMistralWithoutAWindowIsExportedAsMistral) {
  const std::string llama = source_dir() + "/tests/golden/llama";
  Json config = read_json(llama + "/config.json");
  config["model_type"] = "mistral";
  config["architectures"] = {"MistralForCausalLM"};
  config["sliding_window"] = nullptr;
  std::filesystem::create_directory(path("mistral"));
  std::filesystem::copy_file(llama + "/model.safetensors", path("mistral/model.safetensors"));
  write_text(path("mistral/config.json"), dump_json(config));
  const std::vector<std::string> again = start("run", {"--run.steps", "2"});
  done(start("run", {"--model.init", path("mistral"), "--run.steps", "1"}));
  done(again);  // resumed
  done({"export", "--model", path("run"), "--output", path("trained")});
  done({"export", "--model", path("mistral"), "--output", path("copy")});
  for (const char* folder : {"trained", "copy"}) {
    const Json written = read_json(path(folder) + "/config.json");
    EXPECT_EQ(written.at("model_type"), "mistral") << folder;
    EXPECT_EQ(written.at("architectures"), Json::array({"MistralForCausalLM"})) << folder;
    EXPECT_TRUE(written.at("sliding_window").is_null()) << folder;
  }
  EXPECT_EQ(read_text(path("copy/model.safetensors")), read_text(llama + "/model.safetensors"));
}

// The context of the model is 12, the original one 6.
TEST_F(Families, LongropeChoosesItsFactorsByTheSequencesNotByTheModel) {
  const std::string model = source_dir() + "/tests/golden/phi3";
  Json config = read_json(model + "/config.json");
  config["rope_parameters"]["long_factor"] = config["rope_parameters"]["short_factor"];
  std::filesystem::create_directory(path("one"));
  std::filesystem::copy_file(model + "/model.safetensors", path("one/model.safetensors"));
  write_text(path("one/config.json"), dump_json(config));
  const auto first_loss = [&](const char* name, const std::string& init, const char* sequence) {
    const std::string output =
        done(start(name, {"--model.init", init, "--batch.sequence", sequence, "--run.steps", "1"})).output;
    EXPECT_THAT(output, ::testing::HasSubstr("longrope: its long factors where a step has a sequence of more than 6"));
    return losses(name).at(1);
  };
  EXPECT_EQ(first_loss("short", model, "6"), first_loss("only-short", path("one"), "6"));
  EXPECT_NE(first_loss("long", model, "7"), first_loss("still-short", path("one"), "7"));
}

TEST_F(Families, ClassifiersAreNotTrainedOnText) {
  const std::string model = source_dir() + "/tests/golden/bert-classifier";
  const Outcome outcome = run(trireme_command(train("run", {"--model.init", model})));
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_THAT(outcome.output,
              ::testing::HasSubstr("is a classifier, which does not predict tokens; use `trireme glue`"));
}

TEST_F(Families, ParityCommandComparesAndFails) {
  const std::string model = source_dir() + "/tests/golden/neox-parallel", test_case = model + "/case.safetensors";
  const Outcome good = run(trireme_command({"parity", "--model", model, "--case", test_case}));
  EXPECT_EQ(good.code, 0) << good.output;
  EXPECT_THAT(good.output, ::testing::HasSubstr("30 tensors, largest error"));
  EXPECT_THAT(good.output, ::testing::HasSubstr(": equal"));
  const Outcome bad = run(trireme_command({"parity", "--model", model, "--case", test_case, "--tolerance", "1e-12"}));
  EXPECT_EQ(bad.code, 1) << bad.output;
  EXPECT_THAT(bad.output, ::testing::HasSubstr("<- too large"));
  EXPECT_THAT(bad.output, ::testing::HasSubstr("differ from " + test_case + " by more than 1e-12"));
}

TEST_F(Families, ParityCommandComparesWhatRanksHoldBetweenThem) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  for (const char* family : {"gpt2", "gemma3", "olmo2"}) {
    const std::string model = source_dir() + "/tests/golden/" + family, test_case = model + "/case.safetensors";
    const auto compare = [&](const std::string& tolerance) {
      return run(mpirun_command(4, {"parity", "--model", model, "--case", test_case, "--threads", "1", "--mesh.tensor",
                                    "2", "--mesh.pipeline", "2", "--tolerance", tolerance}));
    };
    const Outcome good = compare("1e-3");
    EXPECT_EQ(good.code, 0) << good.output;
    EXPECT_THAT(good.output, ::testing::HasSubstr(" tensors, largest error"));
    EXPECT_EQ(good.output.find(": equal"), good.output.rfind(": equal")) << "one rank prints";
    const Outcome bad = compare("1e-12");
    EXPECT_EQ(bad.code, 1) << bad.output;
    EXPECT_THAT(bad.output, ::testing::HasSubstr("differ from " + test_case + " by more than 1e-12"));
  }
}

// Windows, four norms, soft caps; and norms of whole projections, whose statistics tensor ranks sum.
TEST_F(Families, DecodersResumeOnAnyOtherLayout) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  for (const std::string family : {"gemma3", "olmo2"}) {
    const auto run_to = [&](const std::string& name, int ranks, const char* steps, std::vector<std::string> layout) {
      layout.insert(layout.end(), {"--model.init", source_dir() + "/tests/golden/" + family, "--run.steps", steps,
                                   "--optim.decay-steps", "8", "--optim.learning-rate", "1e-2", "--optim.epsilon",
                                   "1e-3", "--comm.wire", "f32"});
      const Outcome outcome = run(mpirun_command(ranks, start(name, layout)));
      EXPECT_EQ(outcome.code, 0) << outcome.output;
    };
    const std::string one = family + "-one", changes = family + "-changes";
    run_to(one, 1, "8", {});
    run_to(changes, 4, "3", {"--mesh.tensor", "2", "--mesh.pipeline", "2", "--mesh.sequence", "true"});
    run_to(changes, 2, "5", {"--optim.shard", "parameters", "--model.recompute", "full"});
    run_to(changes, 2, "8", {"--mesh.tensor", "2"});
    const auto want = losses(one), got = losses(changes);
    ASSERT_EQ(got.size(), want.size());
    for (const auto& [step, loss] : want) EXPECT_NEAR(got.at(step), loss, 1e-5 * loss) << family << ", step " << step;
    const Outcome refused = run(mpirun_command(
        4, start("refused", {"--model.init", source_dir() + "/tests/golden/" + family, "--mesh.tensor", "4"})));
    EXPECT_EQ(refused.code, 2) << refused.output;
    EXPECT_THAT(refused.output, ::testing::HasSubstr("tensor 4 does not divide 2 heads of keys; 1, 2 do"));
  }
}

}  // namespace
}  // namespace trireme
