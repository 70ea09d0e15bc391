// Runs go on from checkpoints that older programs wrote. tests/golden/checkpoint-version-1 was saved by a program of
// format version 1: two ranks, three steps of the run below.

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/safetensors.h"
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
  const std::pair<const char*, View> parts[] = {
      {"", state.weights()}, {".m", state.moment1()}, {".v", state.moment2()}};
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

TEST_F(OldCheckpoint, OfVersion1ResumesToTheBitsOfItsCopyInTheNewestFormat) {
  const CheckpointFolder folder = open_checkpoint(step_);
  const ParameterTable table(folder.facts.spec);
  TrainingState state(table, DType::f32, true);
  load_checkpoint(folder, table, state);
  save(path("new"), table, state, folder.facts);
  EXPECT_EQ(read_json(path("new") + "/" + step_name(3) + "/manifest.json")["version"], 2);
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
