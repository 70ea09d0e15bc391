#include "train/start/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/run_folder/run_folder.h"
#include "comm/agreement.h"
#include "tests/checkpoint/small_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// ---- check_resume(): is this start the same training?

/// A checkpoint and a start that asks for the same; each test changes one thing.
class CheckResume : public testing::Test {
 protected:
  CheckResume() {
    Config then = plan_.loaded.config;
    then.batch = {.global = 32, .sequence = 6};
    plan_.loaded.config = then;
    plan_.batch = {.global = 32, .micro_batches = 1, .sequence = 6};
    plan_.data_files = {{"train.bin", 123, "00000000000000ff"}};
    plan_.tokenizer_json = R"({"model":{"type":"BPE"}})";
    CheckpointFolder folder{.path = "run/step-00000004", .facts = facts_of(small_spec(), 4)};
    plan_.resume = folder;
    plan_.resumed = then;
    plan_.part.spec = folder.facts.spec;
  }

  Config& config() { return plan_.loaded.config; }
  /// As if a flag had said it.
  void give(const char* option) { plan_.loaded.origins[option] = {.source = "flag --x"}; }
  std::string refusal() {
    try {
      check_resume(plan_);
    } catch (const Error& error) {
      EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(ErrorKind::config));
      return error.what();
    }
    return {};
  }

  RunPlan plan_;
};

TEST_F(CheckResume, TheSameTrainingIsResumedAndSaysFromWhere) {
  const LogLines lines;
  plan_.resume->facts.progress.best_loss = 1.5;
  EXPECT_EQ(refusal(), "");
  EXPECT_THAT(lines.text(), AllOf(HasSubstr("run/step-00000004: 4 steps and 128 samples"), HasSubstr("1.5000"),
                                  Not(HasSubstr("warning"))));
}

TEST_F(CheckResume, AnotherModelIsRefusedForEachOptionThatWasGiven) {
  config().model.layers = 3;
  EXPECT_EQ(refusal(), "") << "a default says nothing about the model of a checkpoint";
  give("model.layers");
  EXPECT_THAT(refusal(), ContainsRegex("model.layers +2 +3 +impossible: another model"));
  config().model.width = 16;
  give("model.width");
  EXPECT_THAT(refusal(), AllOf(ContainsRegex("model.layers +2 +3"), ContainsRegex("model.width +8 +16")));
}

TEST_F(CheckResume, OtherFrozenParametersAreRefused) {
  config().train.freeze = "embedding,block.0";
  plan_.part.trained = Trained("", "embedding,block.0");
  EXPECT_THAT(refusal(),
              HasSubstr("run/step-00000004 was trained with other frozen parameters: embedding.token.weight "
                        "was trained there and is frozen now (train.only \"\" and train.freeze \"\" there, "
                        "\"\" and \"embedding,block.0\" now); use the same patterns, or start a new run from "
                        "its weights with --model.init run/step-00000004"));
  plan_.part.trains = false;
  EXPECT_EQ(refusal(), "") << "an evaluation trains nothing";
  plan_.part.trains = true;
  plan_.part.trained = Trained("", "");
  EXPECT_EQ(refusal(), "") << "patterns may differ if they mean the same";
}

TEST_F(CheckResume, AnotherPresetOrVocabularyIsAnotherModel) {
  config().model.preset = "gpt2-124m";
  give("model.preset");
  EXPECT_THAT(refusal(), AllOf(ContainsRegex("model.layers +2 +12"), Not(HasSubstr("vocabulary"))));
  config().model.preset.clear();
  config().model.vocabulary = 50;
  give("model.vocabulary");
  EXPECT_THAT(refusal(), ContainsRegex("model.vocabulary +11 +50 +impossible"));
}

TEST_F(CheckResume, BiasesAreNamedByTheirOptionOrByTheOneForAll) {
  config().model.bias = false;
  give("model.bias");
  EXPECT_THAT(refusal(), ContainsRegex("model.bias +true +false"));
  const std::string text = refusal();
  EXPECT_THAT(text, Not(HasSubstr("model.qkv-bias")));
  EXPECT_EQ(text.find("model.bias"), text.rfind("model.bias")) << "one line for all of them: " << text;
}

TEST_F(CheckResume, AnotherBatchIsRefusedUnlessAllowed) {
  plan_.batch.global = 16;
  EXPECT_THAT(refusal(), ContainsRegex("batch.global +32 +16 +--checkpoint.allow-other-batch"));
  plan_.batch.sequence = 5;
  EXPECT_THAT(refusal(), ContainsRegex("batch.sequence +6 +5 +--checkpoint.allow-other-batch"));
  config().checkpoint.allow_other_batch = true;
  const LogLines lines;
  EXPECT_EQ(refusal(), "");
  EXPECT_THAT(lines.text(), HasSubstr("batch.global changes with this start from 32 to 16"));
}

TEST_F(CheckResume, AnotherBatchPerRankCountsOnlyWhereTheGlobalBatchChanges) {
  plan_.resumed.batch.per_rank = 32;
  config().batch.per_rank = 16;  // on twice as many ranks
  EXPECT_EQ(refusal(), "");
  plan_.batch.global = 16;
  EXPECT_THAT(refusal(), ContainsRegex("batch.per-rank +32 +16 +--checkpoint.allow-other-batch"));
}

TEST_F(CheckResume, DataFilesMayMoveAndMayNotChange) {
  plan_.data_files[0].path = "elsewhere/train.bin";
  EXPECT_EQ(refusal(), "");
  plan_.data_files[0].hash = "0000000000000001";
  EXPECT_THAT(refusal(), ContainsRegex("data file 1 +train.bin \\(123 bytes, XXH3 00000000000000ff\\) +elsewhere/"
                                       "train.bin .*--checkpoint.allow-other-data"));
  plan_.data_files[0].hash = "00000000000000ff";
  plan_.data_files.push_back({"more.bin", 5, "0000000000000002"});
  EXPECT_THAT(refusal(), ContainsRegex("data file 2 +none +more.bin"));
  config().checkpoint.allow_other_data = true;
  EXPECT_EQ(refusal(), "");
}

TEST_F(CheckResume, SeedAndMasksBelongToTheData) {
  config().run.seed = 2;
  EXPECT_THAT(refusal(), ContainsRegex("run.seed +1337 +2 +--checkpoint.allow-other-data"));
  config().run.seed = 1337;
  config().data.mask_rate = 0.3;
  EXPECT_THAT(refusal(), ContainsRegex("data.mask-rate +0.15 +0.3 +--checkpoint.allow-other-data"));
  config().data.mask_rate = 0.15;
  config().data.whole_words = true;
  EXPECT_THAT(refusal(), HasSubstr("data.whole-words"));
}

TEST_F(CheckResume, ACheckpointOfAnotherProgramKnowsNoData) {
  plan_.resume->origin = CheckpointOrigin::neox;
  plan_.data_files[0].hash = "0000000000000001";
  config().run.seed = 2;
  EXPECT_EQ(refusal(), "");
  give("run.seed");
  EXPECT_THAT(refusal(), HasSubstr("run.seed")) << "a seed that was asked for is compared";
}

TEST_F(CheckResume, AnotherTokenizerIsRefusedUnlessAllowedOrUnknown) {
  plan_.tokenizer_json = "";
  EXPECT_EQ(refusal(), "");
  const auto words = [](const char* word) {
    return fmt::format(R"({{"added_tokens":[],"normalizer":null,"pre_tokenizer":null,"post_processor":null,)"
                       R"("decoder":null,"model":{{"type":"WordLevel","vocab":{{"{}":0}},"unk_token":"{}"}}}})",
                       word, word);
  };
  plan_.resume->facts.tokenizer_json = words("a");
  plan_.tokenizer_json = words("b");
  EXPECT_THAT(refusal(), ContainsRegex("tokenizer.json +XXH3 [0-9a-f]+ +XXH3 [0-9a-f]+ +"
                                       "--checkpoint.allow-other-tokenizer"));
  config().checkpoint.allow_other_tokenizer = true;
  EXPECT_EQ(refusal(), "");
}

// ---- find_resume(): from which checkpoint?

class FindResume : public testing::Test {
 protected:
  std::string run_dir() const { return folder_ / "run"; }
  void save_steps(std::initializer_list<int64_t> steps) const {
    const ParameterTable table(small_spec());
    TrainingState state(table, DType::f32, true);
    for (const int64_t step : steps) {
      fill(state, table, static_cast<uint64_t>(step));
      save(run_dir(), table, state, facts_of(table.spec(), step), 2);
    }
  }
  /// On two ranks, which must agree.
  std::string found(const std::string& resume, bool overwrite = false) const {
    std::vector<std::string> places(2);
    run_local(2, [&](RankContext& rank) {
      LoadedConfig loaded;
      loaded.config.run.dir = run_dir();
      loaded.config.run.overwrite = overwrite;
      loaded.config.checkpoint.resume = resume;
      Scalars scalars(rank.world);
      places[static_cast<size_t>(rank.rank())] = find_resume(loaded, scalars).path;
    });
    EXPECT_EQ(places[0], places[1]);
    return places[0];
  }
  std::string step(int64_t number) const { return run_dir() + "/" + step_name(number); }

  TemporaryFolder folder_;
};

TEST_F(FindResume, AutoTakesTheNewestGoodSnapshotOrNothing) {
  EXPECT_EQ(found("auto"), "");
  save_steps({1, 2});
  EXPECT_EQ(found("auto"), step(2));
  for (const auto& entry : std::filesystem::directory_iterator(step(2))) {
    if (entry.path().extension() != ".safetensors") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x7f');
  }
  const LogLines lines;
  EXPECT_EQ(found("auto"), step(1));
  EXPECT_THAT(lines.text(), HasSubstr(step_name(2)));
}

TEST_F(FindResume, APathIsTakenAsItIs) {
  save_steps({1, 2});
  EXPECT_EQ(found(step(1)), step(1));
  EXPECT_EQ(found(run_dir()), step(2));
  EXPECT_ERROR(found(folder_ / "none"), ErrorKind::io, "none");
}

TEST_F(FindResume, ANewRunDoesNotDeleteStepsByAccident) {
  EXPECT_EQ(found("none"), "");
  save_steps({1, 2});
  EXPECT_ERROR(found("none"), ErrorKind::config, "--run.overwrite");
  EXPECT_THAT(list_steps(run_dir()), ElementsAre(1, 2));
  EXPECT_EQ(found("none", true), "");
  EXPECT_THAT(list_steps(run_dir()), IsEmpty());
}

}  // namespace
}  // namespace trireme
