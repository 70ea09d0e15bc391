// Runs resume from checkpoints that older programs wrote. tests/golden/checkpoint-version-1 was saved by a program of
// format version 1: two ranks, three steps of the run below. checkpoint-version-2 by the last one of version 2: two
// ranks that shared the optimizer's state, bf16 weights, a model of half the width. checkpoint-version-3 by two tensor
// ranks of a program of version 4 whose manifest was then brought to version 3: without the fields and options that the
// models since Llama introduced, which is all that the versions differ in. checkpoint-version-4: such a model, bf16,
// two ranks that shared the optimizer's state.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/safetensors/safetensors.h"
#include "tests/checkpoint/small_run.h"
#include "tests/runs/training_fixture.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;

class OldCheckpoint : public TrainingFixture {
 protected:
  OldCheckpoint() : step_(path("old") + "/" + step_name(3)) {
    fs::create_directory(path("old"));
    fs::copy(source_dir() + "/tests/golden/checkpoint-version-1", step_, fs::copy_options::recursive);
  }
  std::vector<std::string> go_on(const std::string& run) const {
    return train(run, {"--model.layers", "1", "--model.width", "16", "--model.dropout", "0.1", "--run.steps", "8"});
  }
  std::string step_;
};

TEST_F(OldCheckpoint, OfVersion1HoldsWhatItsFilesSay) {
  EXPECT_EQ(read_json(step_ + "/manifest.json")["version"], 1);
  const CheckpointFolder folder = open_checkpoint(step_);
  const ParameterTable table(folder.facts.spec);
  TrainingState state(table, DType::f32, true);
  load_checkpoint(folder, table, state);
  const std::pair<const char*, ConstView> parts[] = {
      {"", state.weights()}, {".m", state.state(kAdamM)}, {".v", state.state(kAdamV)}};
  for (const auto& [suffix, flat] : parts) {
    for (const Parameter& p : table.all()) {
      std::vector<float> stored;
      for (int rank = 0; rank < 2; ++rank) {
        const SafetensorsFile shard(step_ + "/" + shard_name(rank, 2));
        const SafetensorsEntry* entry = shard.find(p.name + suffix);
        if (!entry) continue;
        const std::vector<float> values = shard.read_f32(*entry);
        stored.insert(stored.end(), values.begin(), values.end());
      }
      const auto loaded = view_of(flat, p).values<float>();
      EXPECT_EQ(stored, std::vector<float>(loaded.begin(), loaded.begin() + p.stored_shape.count()))
          << p.name << suffix;
    }
  }
}

TEST_F(OldCheckpoint, OfVersion2VerifiesAndResumesToTheBitsOfItsCopyInTheNewestFormat) {
  fs::remove_all(step_);
  fs::copy(source_dir() + "/tests/golden/checkpoint-version-2", step_, fs::copy_options::recursive);
  EXPECT_EQ(read_json(step_ + "/manifest.json")["version"], 2);
  EXPECT_EQ(verify_checkpoint(step_), std::vector<std::string>());
  const CheckpointFolder folder = open_checkpoint(step_);
  EXPECT_EQ(folder.facts.parameter_hash, "");
  EXPECT_EQ(folder.facts.layout_hash.size(), 16);
  EXPECT_THAT(
      run(trireme_command({"checkpoint", "show", step_})).output,
      testing::HasSubstr("hash " + folder.facts.layout_hash + " of an older version, which depends on the layout"));
  const ParameterTable table(folder.facts.spec);
  TrainingState state(table, DType::bf16, true);
  load_checkpoint(folder, table, state);
  save(path("new"), table, state, folder.facts);
  save(path("ranks"), table, state, folder.facts, 2);
  std::vector<std::string> names{"old", "new"};
  if (!mpirun_path().empty()) names.push_back("ranks");
  for (const std::string& name : names) {
    const std::vector<std::string> words =
        train(name, {"--model.layers", "1", "--model.width", "8", "--model.dropout", "0.1", "--run.steps", "8",
                     "--precision.dtype", "bf16", "--batch.micro", "6", "--optim.shard",
                     name == "ranks" ? "parameters" : "none"});
    const Outcome resumed = run(name == "ranks" ? mpirun_command(2, words) : trireme_command(words));
    EXPECT_EQ(resumed.code, 0) << resumed.output;
    EXPECT_THAT(resumed.output, testing::HasSubstr("step-00000003: 3 steps and 36 samples are done"));
    EXPECT_EQ(verify_checkpoint(path(name) + "/" + step_name(8)), std::vector<std::string>());
  }
  EXPECT_EQ(weights("old"), weights("new"));
  if (names.size() == 3) {
    EXPECT_EQ(weights("ranks"), weights("old")) << "two micro-batches, or two ranks with one each";
  }
}

TEST_F(OldCheckpoint, OfVersions3And4ResumeToTheBitsOfTheirCopiesInTheNewestFormat) {
  const std::vector<std::string> plain = {"--model.layers", "1", "--model.width", "8", "--run.steps", "8"};
  const std::map<int, std::vector<std::string>> flags = {
      {3, {"--model.dropout", "0.1"}},
      {4, {"--model.norm",       "rms",  "--model.bias",        "false", "--model.gated",    "true",
           "--model.activation", "silu", "--model.inner-width", "12",    "--model.position", "rotary",
           "--model.key-heads",  "1",    "--model.query-keys",  "head",  "--model.window",   "5",
           "--precision.dtype",  "bf16", "--batch.micro",       "6"}}};
  for (const auto& [version, own] : flags) {
    const std::string old = fmt::format("old-{}", version), copy = fmt::format("new-{}", version);
    const std::string step = path(old) + "/" + step_name(3);
    fs::create_directory(path(old));
    fs::copy(source_dir() + fmt::format("/tests/golden/checkpoint-version-{}", version), step,
             fs::copy_options::recursive);
    EXPECT_EQ(read_json(step + "/manifest.json")["version"], version);
    EXPECT_EQ(verify_checkpoint(step), std::vector<std::string>()) << "the hash of the weights, too";
    const CheckpointFolder folder = open_checkpoint(step);
    EXPECT_EQ(folder.facts.parameter_hash.size(), 16);
    EXPECT_EQ(folder.facts.spec.is_plain(), version == 3);
    const ParameterTable table(folder.facts.spec);
    TrainingState state(table, version == 3 ? DType::f32 : DType::bf16, true);
    load_checkpoint(folder, table, state);
    save(path(copy), table, state, folder.facts);
    for (const std::string& name : {old, copy}) {
      std::vector<std::string> words = train(name, plain);
      words.insert(words.end(), own.begin(), own.end());
      const Outcome resumed = run(trireme_command(words));
      EXPECT_EQ(resumed.code, 0) << resumed.output;
      EXPECT_THAT(resumed.output, testing::HasSubstr("step-00000003: 3 steps and 36 samples are done"));
    }
    EXPECT_EQ(progress(old), progress(copy));
    EXPECT_EQ(weights(old), weights(copy));
  }
}

TEST_F(OldCheckpoint, OfVersion1ResumesToTheBitsOfItsCopyInTheNewestFormat) {
  const CheckpointFolder folder = open_checkpoint(step_);
  const ParameterTable table(folder.facts.spec);
  TrainingState state(table, DType::f32, true);
  load_checkpoint(folder, table, state);
  save(path("new"), table, state, folder.facts);
  EXPECT_EQ(read_json(path("new") + "/" + step_name(3) + "/manifest.json")["version"], 4);
  for (const char* name : {"old", "new"}) {
    const Outcome resumed = run(trireme_command(go_on(name)));
    EXPECT_EQ(resumed.code, 0) << resumed.output;
    EXPECT_THAT(resumed.output, testing::HasSubstr("step-00000003: 3 steps and 36 samples are done"));
  }
  EXPECT_EQ(progress("old").step, 8);
  EXPECT_EQ(progress("old"), progress("new"));
  EXPECT_EQ(weights("old"), weights("new"));
}

}  // namespace
}  // namespace trireme
