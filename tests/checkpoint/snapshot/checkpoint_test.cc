#include "checkpoint/checkpoint_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/run_folder/run_steps.h"
#include "checkpoint/safetensors/safetensors.h"
#include "checkpoint/snapshot/slices.h"
#include "comm/heartbeat.h"
#include "model/presets.h"
#include "optim/parameter_hash.h"
#include "tests/checkpoint/small_run.h"
#include "tests/checkpoint/snapshot/manifest_text.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;

/// A run with one checkpoint (step 5) in its own folder.
struct SavedRun {
  TemporaryFolder folder;
  Spec spec;
  ParameterTable table;
  TrainingState state;
  explicit SavedRun(int ranks = 2, DType dtype = DType::f32, int64_t step = 5)
      : spec(small_spec()), table(spec), state(table, dtype, true) {
    fill(state, table, 7);
    save(folder.path(), table, state, facts_of(spec, step), ranks);
  }
  std::string step_dir(int64_t step = 5) const { return folder / step_name(step); }
  void add(int64_t step, uint64_t seed) {
    fill(state, table, seed);
    save(folder.path(), table, state, facts_of(spec, step), 2);
  }
  /// Loads into a fresh state and returns whether it equals the saved one.
  bool loads_equal(DType dtype) const {
    TrainingState loaded(table, dtype, true);
    load_checkpoint(open_checkpoint(folder.path()), table, loaded);
    return same_state(loaded, state);
  }
};

void flip(const std::string& path, size_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 0x10));
}

TEST(Checkpoint, EveryBitComesBack) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const SavedRun run(1, dtype);
    EXPECT_TRUE(run.loads_equal(dtype)) << name_of(dtype);
  }
}

TEST(Checkpoint, AnyNumberOfRanksResumesOnAnyOther) {
  const SavedRun one(1);
  TrainingState state(one.table, DType::f32, true);
  load_checkpoint(open_checkpoint(one.folder.path()), one.table, state);
  TemporaryFolder three, two;
  save(three.path(), one.table, state, facts_of(one.spec, 6), 3);
  load_checkpoint(open_checkpoint(three.path()), one.table, state);
  save(two.path(), one.table, state, facts_of(one.spec, 7), 2);
  TrainingState last(one.table, DType::f32, true);
  load_checkpoint(open_checkpoint(two.path()), one.table, last);
  EXPECT_TRUE(same_state(one.state, last));
  EXPECT_TRUE(fs::exists(three / "step-00000006/rank-00002-of-00003.safetensors"));
}

TEST(Checkpoint, MoreRanksThanRowsStillCoverEverything) {
  const SavedRun run(200);
  EXPECT_TRUE(run.loads_equal(DType::f32));
}

TEST(Checkpoint, SlicesTileEveryTensorAndAreBalanced) {
  const ParameterTable table(preset("gpt2-124m").spec);
  for (const int ranks : {1, 2, 3, 7, 64}) {
    std::map<std::pair<size_t, std::string_view>, int64_t> next;
    int64_t smallest = INT64_MAX, largest = 0;
    const std::vector<Layout> layouts(static_cast<size_t>(ranks), table.layout());
    for (const std::vector<Slice>& slices : plan_slices(table, layouts, true)) {
      int64_t elements = 0;
      for (const Slice& slice : slices) {
        int64_t& row = next[{slice.parameter, slice.part}];
        ASSERT_EQ(slice.box.begin[0], row);
        ASSERT_EQ(slice.box.row_width(), whole_box(table.all()[slice.parameter].stored_shape).row_width());
        row += slice.box.count[0];
        elements += slice.box.elements();
      }
      smallest = std::min(smallest, elements);
      largest = std::max(largest, elements);
    }
    for (size_t i = 0; i < table.all().size(); ++i) {
      for (const std::string_view part : {kWeightPart, kAdamM, kAdamV})
        ASSERT_EQ((next[{i, part}]), table.all()[i].stored_shape[0]);
    }
    EXPECT_LE(largest - smallest, 3 * 2 * 3072) << ranks << " ranks";  // at most a row more at either end, three parts
  }
}

TEST(Checkpoint, Float32StateResumesAsBfloatWithTheSameMaster) {
  const SavedRun run(2);
  TrainingState loaded(run.table, DType::bf16, true);
  load_checkpoint(open_checkpoint(run.folder.path()), run.table, loaded);
  for (const Parameter& p : run.table.all()) {
    std::vector<float> want(static_cast<size_t>(p.stored_shape.count())), got(want.size());
    run.state.read_master(p, want);
    loaded.read_master(p, got);
    EXPECT_EQ(want, got) << p.name;
  }
}

TEST(Checkpoint, FactsComeBack) {
  TemporaryFolder folder;
  const Spec spec = small_spec();
  const ParameterTable table(spec);
  const TrainingState state(table, DType::f32, true);
  CheckpointFacts facts = facts_of(spec, 123);
  facts.progress = {123, (uint64_t{1} << 60) + 1, 120, 0.1 + 0.2, 100, 3, 2, {50, 3.25, 0.1}};
  save(folder.path(), table, state, facts);
  const CheckpointFolder opened = open_checkpoint(folder.path());
  EXPECT_EQ(opened.facts.progress, facts.progress);
  EXPECT_EQ(opened.facts.spec, spec);
  EXPECT_EQ(opened.facts.tokenizer_json, facts.tokenizer_json);
  EXPECT_EQ(opened.facts.data_files, facts.data_files);
  EXPECT_EQ(opened.facts.parameter_hash, hex64(parameter_hash(state, table))) << "of what is stored, whatever is said";
  EXPECT_EQ(parse_json(opened.facts.config_json, "got"), parse_json(facts.config_json, "want"));
  facts.progress.best_loss = std::numeric_limits<double>::infinity();
  facts.tokenizer_json.clear();
  facts.progress.step = 124;
  save(folder.path(), table, state, facts);
  EXPECT_EQ(open_checkpoint(folder.path()).facts.progress.best_loss, std::numeric_limits<double>::infinity());
  EXPECT_EQ(open_checkpoint(folder.path()).facts.tokenizer_json, "");
}

TEST(Checkpoint, ShardsAreOrdinarySafetensorsInRankOrder) {
  const SavedRun run(3);
  const Parameter& p = run.table.find("embedding.token.weight");
  std::vector<float> want(static_cast<size_t>(p.stored_shape.count())), got;
  run.state.read_master(p, want);
  for (int rank = 0; rank < 3; ++rank) {
    const SafetensorsFile shard(run.step_dir() + "/" + shard_name(rank, 3));
    if (const auto* entry = shard.find(p.name)) {
      for (float value : shard.read_f32(*entry)) got.push_back(value);
    }
  }
  EXPECT_EQ(got, want) << "vocabulary without padding rows, concatenated over the shards";
}

TEST(Checkpoint, PointersNameLatestAndBest) {
  SavedRun run;
  fill(run.state, run.table, 8);
  save(run.folder.path(), run.table, run.state, facts_of(run.spec, 9), 1, 0, true);
  run.add(11, 9);
  EXPECT_EQ(read_text(run.folder / "latest"), "step-00000011\n");
  EXPECT_EQ(read_text(run.folder / "best"), "step-00000009\n");
  EXPECT_EQ(list_steps(run.folder.path()), (std::vector<int64_t>{5, 9, 11}));
  EXPECT_EQ(open_checkpoint(run.folder.path()).facts.progress.step, 11);
  EXPECT_EQ(open_checkpoint(run.step_dir(9)).facts.progress.step, 9);
}

TEST(Checkpoint, SavingAStepAgainReplacesIt) {
  SavedRun run(3);
  run.add(5, 99);
  EXPECT_TRUE(run.loads_equal(DType::f32));
  EXPECT_FALSE(fs::exists(run.step_dir() + "/" + shard_name(0, 3)));
  EXPECT_EQ(std::distance(fs::directory_iterator(run.folder.path()), fs::directory_iterator()), 2)
      << "the step and latest, no leftovers";
}

TEST(Checkpoint, PruningKeepsTheNewestAndTheBest) {
  SavedRun run;
  const auto save_step = [&](int64_t step, bool best) {
    save(run.folder.path(), run.table, run.state, facts_of(run.spec, step), 2, 2, best);
  };
  save_step(6, true);
  for (int64_t step = 7; step <= 10; ++step) save_step(step, false);
  EXPECT_EQ(list_steps(run.folder.path()), (std::vector<int64_t>{6, 9, 10}));
  flip(run.step_dir(10) + "/" + shard_name(0, 2), 5000);
  EXPECT_ERROR(prune_checkpoints(run.folder.path(), 1), ErrorKind::data, "the newest checkpoint failed verification");
  EXPECT_EQ(list_steps(run.folder.path()), (std::vector<int64_t>{6, 9, 10}));
}

TEST(Checkpoint, StepsBeforeARollbackAreKeptButNotUsed) {
  SavedRun run;
  run.add(20, 1);
  run.add(30, 2);
  abandon_later_steps(run.folder.path(), 5);
  save(run.folder.path(), run.table, run.state, facts_of(run.spec, 10), 1, 1);
  EXPECT_EQ(find_resumable(run.folder.path())->facts.progress.step, 10);
  EXPECT_EQ(list_steps(run.folder.path()), (std::vector<int64_t>{10, 20, 30}));
}

TEST(Checkpoint, ACopyUnderAnotherStepsNameIsNamedAndNotUsed) {
  SavedRun run;
  run.add(9, 1);
  fs::copy(run.step_dir(9), run.folder / "step-00000030", fs::copy_options::recursive);
  const std::string expected = "step-00000030/manifest.json belongs to step 9: the folder is a copy of step-00000009";
  const auto faults = verify_checkpoint(run.folder / "step-00000030");
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_THAT(faults[0], testing::HasSubstr(expected));
  EXPECT_EQ(verify_checkpoint(run.folder / "step-00000030/").size(), 1u);
  EXPECT_ERROR(open_checkpoint(run.folder / "step-00000030"), ErrorKind::data, expected);
  EXPECT_EQ(find_resumable(run.folder.path())->facts.progress.step, 9);
  fs::copy(run.step_dir(9), run.folder / "kept", fs::copy_options::recursive);
  EXPECT_TRUE(verify_checkpoint(run.folder / "kept").empty()) << "a name of the user's own says nothing";
}

TEST(Checkpoint, EveryFlippedByteIsFoundAndNamed) {
  const SavedRun run(2);
  const std::string dir = run.step_dir();
  ASSERT_TRUE(verify_checkpoint(dir).empty());
  for (const auto& item : fs::directory_iterator(dir)) {
    const std::string path = item.path().string();
    const size_t size = fs::file_size(path), step = std::max<size_t>(1, size / 150);
    for (size_t at = 0; at < size; at += step) {
      flip(path, at);
      const auto faults = verify_checkpoint(dir);
      ASSERT_FALSE(faults.empty()) << path << " byte " << at;
      EXPECT_THAT(faults.front(), testing::HasSubstr(item.path().filename().string())) << "byte " << at;
      TrainingState state(run.table, DType::f32, true);
      EXPECT_THROW(load_checkpoint(open_checkpoint(dir), run.table, state), Error) << path << " byte " << at;
      flip(path, at);
    }
  }
  EXPECT_TRUE(verify_checkpoint(dir).empty());
}

TEST(Checkpoint, DamagedSliceIsNamedWithOffsetsAndTensor) {
  const SavedRun run(2);
  const std::string shard = run.step_dir() + "/" + shard_name(1, 2);
  size_t at = 0;
  std::string expected;
  {
    const SafetensorsFile file(shard);
    const SafetensorsEntry& entry = *file.find("block.0.mlp.in.weight.adam.m");
    at = file.header_bytes() + entry.begin;
    expected =
        fmt::format("bytes {} to {} (tensor block.0.mlp.in.weight.adam.m, rows", at, file.header_bytes() + entry.end);
  }
  flip(shard, at + 3);
  const auto faults = verify_checkpoint(run.step_dir());
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_THAT(faults[0], testing::HasSubstr(expected));
  TrainingState state(run.table, DType::f32, true);
  EXPECT_ERROR(load_checkpoint(open_checkpoint(run.step_dir()), run.table, state), ErrorKind::data, expected);
}

TEST(Checkpoint, MissingTruncatedAppendedAndExtraShardsAreNamed) {
  const SavedRun run(2);
  const std::string shard = run.step_dir() + "/" + shard_name(1, 2);
  const std::string good = read_text(shard);
  fs::remove(shard);
  EXPECT_ERROR(open_checkpoint(run.step_dir()), ErrorKind::data, "rank-00001-of-00002.safetensors is missing");
  write_text(shard, good.substr(0, good.size() - 100));
  EXPECT_ERROR(open_checkpoint(run.step_dir()), ErrorKind::data,
               fmt::format("has {} bytes, but the manifest says {}: it is truncated", good.size() - 100, good.size()));
  write_text(shard, good + "x");
  EXPECT_ERROR(open_checkpoint(run.step_dir()), ErrorKind::data, "it was appended to");
  write_text(shard, good);
  write_text(run.step_dir() + "/rank-00002-of-00003.safetensors", good);
  EXPECT_ERROR(open_checkpoint(run.step_dir()), ErrorKind::data,
               "rank-00002-of-00003.safetensors: this shard is not in the manifest");
  fs::remove(run.step_dir() + "/rank-00002-of-00003.safetensors");
  fs::remove(run.step_dir() + "/tokenizer.json");
  EXPECT_ERROR(open_checkpoint(run.step_dir()), ErrorKind::data, "tokenizer.json is missing");
}

TEST(Checkpoint, ResumingFallsBackToThePreviousGoodOne) {
  SavedRun run;
  run.add(8, 1);
  run.add(12, 2);
  EXPECT_EQ(find_resumable(run.folder.path())->facts.progress.step, 12);
  flip(run.step_dir(12) + "/" + shard_name(0, 2), 9000);
  testing::internal::CaptureStderr();
  EXPECT_EQ(find_resumable(run.folder.path())->facts.progress.step, 8);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("step-00000012 cannot be used"));
  fs::remove(run.step_dir(8) + "/manifest.json");
  EXPECT_EQ(find_resumable(run.folder.path())->facts.progress.step, 5);
  fs::resize_file(run.step_dir(5) + "/manifest.json", 10);
  EXPECT_ERROR(find_resumable(run.folder.path()), ErrorKind::data, "holds 2 checkpoints, but none can be used");
}

TEST(Checkpoint, FoldersWithoutCheckpointsSaySo) {
  TemporaryFolder folder;
  EXPECT_FALSE(find_resumable(folder.path()).has_value());
  EXPECT_FALSE(find_resumable(folder / "absent").has_value());
  EXPECT_ERROR(open_checkpoint(folder / "absent"), ErrorKind::io, "the folder does not exist");
  EXPECT_ERROR(open_checkpoint(folder.path()), ErrorKind::io, "has no checkpoint");
}

TEST(Checkpoint, AWrongPointerFallsBackToTheNewestStep) {
  SavedRun run;
  run.add(8, 1);
  write_text(run.folder / "latest", "step-banana\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(open_checkpoint(run.folder.path()).facts.progress.step, 8);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("but contains \"step-banana\""));
  fs::remove(run.folder / "latest");
  EXPECT_EQ(open_checkpoint(run.folder.path()).facts.progress.step, 8);
}

TEST(Checkpoint, AnotherModelIsRefusedWithEveryDifference) {
  const SavedRun run;
  Spec other = small_spec(13);
  other.biases.qkv = false;
  const ParameterTable table(other);
  TrainingState state(table, DType::f32, true);
  const CheckpointFolder folder = open_checkpoint(run.folder.path());
  EXPECT_ERROR(load_checkpoint(folder, table, state), ErrorKind::data,
               "embedding.token.weight: [11, 8] in the checkpoint, [13, 8]");
  EXPECT_ERROR(load_checkpoint(folder, table, state), ErrorKind::data,
               "block.1.attention.qkv.bias: [24] in the checkpoint, missing from the model");
}

TEST(Checkpoint, WeightsAloneAreEnoughToSampleButNotToTrain) {
  TemporaryFolder folder;
  const Spec spec = small_spec();
  const ParameterTable table(spec);
  TrainingState weights(table, DType::f32, false), loaded(table, DType::f32, false), training(table, DType::f32, true);
  fill(weights, table, 3);
  save(folder.path(), table, weights, facts_of(spec, 1), 2);
  load_checkpoint(open_checkpoint(folder.path()), table, loaded);
  EXPECT_TRUE(same_state(weights, loaded));
  EXPECT_ERROR(load_checkpoint(open_checkpoint(folder.path()), table, training), ErrorKind::data, "has only weights");
}

TEST(Checkpoint, TheSnapshotIsTakenAtBegin) {
  TemporaryFolder folder;
  const Spec spec = small_spec();
  const ParameterTable table(spec);
  TrainingState state(table, DType::bf16, true), before(table, DType::bf16, true), loaded(table, DType::bf16, true);
  fill(state, table, 1);
  fill(before, table, 1);
  run_local(1, [&](RankContext& rank) {
    CheckpointWriter writer(folder.path(), table, state, rank.world);
    EXPECT_FALSE(writer.pending());
    EXPECT_FALSE(writer.publish(2).has_value());
    writer.begin(facts_of(spec, 1));
    EXPECT_TRUE(writer.pending());
    fill(state, table, 2);
    EXPECT_EQ(writer.publish(2), folder / "step-00000001");
    EXPECT_TRUE(writer.idle());
  });
  load_checkpoint(open_checkpoint(folder.path()), table, loaded);
  EXPECT_TRUE(same_state(before, loaded));
}

TEST(Checkpoint, ASaveMovesAsItsSlicesReachTheDisk) {
  SavedRun run;
  const auto group = make_single();
  Heartbeat progress;
  CheckpointWriter writer(run.folder.path(), run.table, run.state, *group, &progress);
  const uint64_t before = progress.state().moves;
  writer.begin(facts_of(run.spec, 30));
  EXPECT_TRUE(writer.wait(60));
  EXPECT_GE(writer.slices_done(), static_cast<int64_t>(3 * run.table.all().size()));
  EXPECT_EQ(progress.state().moves - before, static_cast<uint64_t>(writer.slices_done()));
}

TEST(Checkpoint, ADroppedWriterPublishesWhatItHasBegun) {
  TemporaryFolder folder;
  const Spec spec = small_spec();
  const ParameterTable table(spec);
  const TrainingState state(table, DType::f32, true);
  run_local(1, [&](RankContext& rank) {
    CheckpointWriter writer(folder.path(), table, state, rank.world);
    writer.begin(facts_of(spec, 1));
  });
  EXPECT_EQ(list_steps(folder.path()), std::vector<int64_t>{1});
  EXPECT_EQ(read_pointer(folder.path(), "latest"), 1);
}

TEST(Checkpoint, LeftoversOfInterruptedSavesAreRemoved) {
  SavedRun run;
  fs::create_directories(run.folder / saving_name(6, "token"));
  write_text(run.folder / ".trireme-shared-01", "");
  fs::create_directories(run.folder / ".trash-step-00000004");
  write_text(run.folder / "latest.tmp-1", "x");
  write_text(run.folder / "notes.txt", "the user's");
  fs::create_directories(run.folder / "step-00000007");
  testing::internal::CaptureStderr();
  prepare_run_folder(run.folder.path());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("step-00000007 has no manifest.json"));
  EXPECT_EQ(list_steps(run.folder.path()), std::vector<int64_t>{5});
  EXPECT_FALSE(fs::exists(run.folder / saving_name(6, "token")));
  EXPECT_FALSE(fs::exists(run.folder / ".trireme-shared-01"));
  EXPECT_FALSE(fs::exists(run.folder / ".trash-step-00000004"));
  EXPECT_FALSE(fs::exists(run.folder / "latest.tmp-1"));
  EXPECT_TRUE(fs::exists(run.folder / "notes.txt"));
  EXPECT_TRUE(run.loads_equal(DType::f32));
}

TEST(Checkpoint, AHashThatIsNotThatOfItsWeightsIsFound) {
  const ParameterTable table(small_spec());
  TrainingState state(table, DType::f32, true);
  fill(state, table, 3);
  const TemporaryFolder folder;
  save(folder.path(), table, state, facts_of(small_spec(), 5), 2);
  const std::string step = folder / step_name(5), hash = hex64(parameter_hash(state, table));
  EXPECT_EQ(verify_checkpoint(step), std::vector<std::string>());
  change_manifest(step, [](Json& json) { json["parameter_hash"] = "00000000000000aa"; });
  EXPECT_EQ(
      verify_checkpoint(step),
      std::vector<std::string>{
          step + "/manifest.json: parameter_hash is 00000000000000aa, but the weights in the shards have the hash " +
          hash + ": they were not written together"});
  for (const auto& older : {std::function<void(Json&)>([](Json& json) { json["version"] = 2; }),
                            std::function<void(Json&)>([](Json& json) { json["parameter_hash"] = nullptr; })}) {
    change_manifest(step, older);
    EXPECT_EQ(verify_checkpoint(step), std::vector<std::string>()) << "nothing to compare with";
  }
}

}  // namespace
}  // namespace trireme
