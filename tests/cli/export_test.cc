#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "checkpoint/huggingface/huggingface.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/run_folder/run_lock.h"
#include "checkpoint/safetensors/safetensors.h"
#include "cli/command.h"
#include "report/reporter.h"
#include "tests/checkpoint/small_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;

/// A run with checkpoints of steps 1 (best) to 3.
struct SavedRun {
  TemporaryFolder folder;
  Spec spec = small_spec();
  ParameterTable table{spec};
  TrainingState state{table, DType::f32, true};
  std::string dir = folder / "run";
  SavedRun() {
    fill(state, table, 1);
    for (int64_t step = 1; step <= 3; ++step) save(dir, table, state, facts_of(spec, step), 2, 0, step == 1);
  }
  void damage(int64_t step) {
    const std::string shard = fmt::format("{}/step-{:08}/rank-00001-of-00002.safetensors", dir, step);
    std::string bytes = read_text(shard);
    bytes[SafetensorsFile(shard).header_bytes() + 3] ^= 1;  // in the weights, which come first
    write_text(shard, bytes);
  }
};

std::string output_of(int (*command)(CommandLine), std::vector<std::string> arguments, int code = 0) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(command(std::move(arguments)), code);
  return testing::internal::GetCapturedStdout();
}

TEST(ExportCommand, WritesTheRecordsOfTheRunAsTrainerState) {
  SavedRun run;
  {
    Reporter reporter({.run_dir = run.dir, .tensorboard = false}, 0, 3, {});
    for (int64_t step = 1; step <= 3; ++step)
      reporter.evaluation({.step = step, .train_loss = {}, .validation_loss = 4.0 - static_cast<double>(step)});
  }
  const std::string step2 = run.folder / "step2", last = run.folder / "last";
  output_of(run_export, {"--checkpoint", run.dir + "/step-00000002", "--output", step2});
  output_of(run_export, {"--checkpoint", run.dir, "--output", last});
  EXPECT_EQ(read_json(step2 + "/trainer_state.json")["log_history"].size(), 2u);
  EXPECT_EQ(read_json(step2 + "/trainer_state.json")["best_metric"], 2.0);
  EXPECT_EQ(read_json(last + "/trainer_state.json")["global_step"], 3);
  output_of(run_export, {"--checkpoint", last, "--output", run.folder / "again"});
  EXPECT_FALSE(fs::exists(run.folder / "again/trainer_state.json")) << "a model folder has no records";
}

TEST(ExportCommand, WritesAFolderThatImportsAsTheSameModel) {
  SavedRun run;
  const std::string out = run.folder / "out";
  EXPECT_THAT(output_of(run_export, {"--checkpoint", run.dir, "--output", out + "/"}), testing::HasSubstr("(step 3, "));
  for (const char* name :
       {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    EXPECT_TRUE(fs::exists(out + "/" + name)) << name;
  }
  TrainingState back(run.table, DType::f32, true);
  load_huggingface(out, run.spec, run.table, back);
  EXPECT_TRUE(same_bytes(back.weights(), run.state.weights()));
  EXPECT_EQ(std::distance(fs::directory_iterator(run.folder.path()), fs::directory_iterator()), 2)
      << "no partial folder";
}

TEST(ExportCommand, TakesAStepFolderAndBfloat) {
  SavedRun run;
  const std::string out = run.folder / "out", wide = run.folder / "wide", step = run.dir + "/step-00000001";
  fs::create_directory(out);  // an empty folder is fine
  output_of(run_export, {"--checkpoint", step, "--output", out, "--dtype", "bf16"});
  EXPECT_THAT(output_of(run_export, {"--checkpoint", step, "--output", wide}), testing::HasSubstr("(step 1, "));
  EXPECT_LT(fs::file_size(out + "/model.safetensors"), fs::file_size(wide + "/model.safetensors"));
  EXPECT_THAT(read_text(out + "/config.json"), testing::HasSubstr("bfloat16"));
}

TEST(ExportCommand, WritesTheTypeThatTheModelsFolderHas) {
  SavedRun run;
  const std::string narrow = run.folder / "narrow", again = run.folder / "again", wide = run.folder / "wide";
  output_of(run_export, {"--checkpoint", run.dir, "--output", narrow, "--dtype", "bf16"});
  EXPECT_THAT(output_of(run_export, {"--model", narrow, "--output", again}), testing::HasSubstr(", bf16) to "));
  EXPECT_EQ(read_text(again + "/model.safetensors"), read_text(narrow + "/model.safetensors"));
  EXPECT_EQ(read_json(again + "/config.json").at("dtype"), "bfloat16");
  EXPECT_THAT(output_of(run_export, {"--model", narrow, "--output", wide, "--dtype", "f32"}),
              testing::HasSubstr(", f32) to "));
  EXPECT_EQ(read_json(wide + "/config.json").at("dtype"), "float32");
}

/// What the export of a folder with these added tokens, from id 0 on, says that ends a text.
std::pair<Json, std::string> end_among(const std::vector<std::string>& added) {
  SavedRun run;
  const std::string first = run.folder / "first", second = run.folder / "second";
  output_of(run_export, {"--checkpoint", run.dir, "--output", first});
  Json tokens = Json::array();
  for (const std::string& text : added) tokens.push_back({{"id", tokens.size()}, {"content", text}});
  write_text(first + "/tokenizer.json", dump_json({{"added_tokens", tokens}}));
  output_of(run_export, {"--model", first, "--output", second});
  const Json id = read_json(second + "/generation_config.json").at("eos_token_id");
  EXPECT_EQ(read_json(second + "/config.json").at("eos_token_id"), id);
  return {id, read_json(second + "/tokenizer_config.json").value("eos_token", "none")};
}

TEST(ExportCommand, SaysWhichTokenEndsATextAsSamplingTakesIt) {
  using End = std::pair<Json, std::string>;
  EXPECT_EQ(end_among({"<s>", "<pad>", "</s>", "<unk>", "<|endoftext|>"}), End(2, "</s>")) << "OPT's vocabulary";
  EXPECT_EQ(end_among({"</s>", "<|endoftext|>"}), End(1, "<|endoftext|>"));
  EXPECT_EQ(end_among({"<|begin_of_text|>", "<|end_of_text|>"}), End(1, "<|end_of_text|>"));
  EXPECT_EQ(end_among({"[SEP]"}), End(nullptr, "none"));
}

TEST(ExportCommand, LeavesNothingWhenItFails) {
  SavedRun run;
  run.damage(3);
  const std::string out = run.folder / "out";
  EXPECT_ERROR(run_export({"--checkpoint", run.dir, "--output", out}), ErrorKind::data, "the file is damaged");
  EXPECT_FALSE(fs::exists(out));
  EXPECT_ERROR(run_export({"--checkpoint", run.dir, "--output", run.dir}), ErrorKind::io, "is not an empty folder");
  EXPECT_ERROR(run_export({"--checkpoint", run.folder.path(), "--output", out}), ErrorKind::io, "has no checkpoint");
  EXPECT_ERROR(run_export({"--output", out}), ErrorKind::usage, "--checkpoint is required");
  EXPECT_ERROR(run_export({"--checkpoint", run.dir, "--output", out, "--dtype", "f16"}), ErrorKind::usage, "f16");
}

TEST(CheckpointCommand, ListsShowsAndVerifies) {
  SavedRun run;
  EXPECT_THAT(
      output_of(run_checkpoint, {"list", run.dir}),
      testing::AllOf(testing::HasSubstr("step-00000002"), testing::HasSubstr("latest"), testing::HasSubstr("best")));
  EXPECT_THAT(output_of(run_checkpoint, {"show", run.dir}),
              testing::AllOf(testing::HasSubstr("step        3"), testing::HasSubstr("train.bin (123 bytes")));
  EXPECT_THAT(output_of(run_checkpoint, {"verify", run.dir}), testing::HasSubstr("step-00000003: good"));
  run.damage(2);
  EXPECT_THAT(output_of(run_checkpoint, {"verify", run.dir}, 1),
              testing::AllOf(testing::HasSubstr("step-00000002: bad"), testing::HasSubstr("the file is damaged"),
                             testing::HasSubstr("step-00000003: good")));
  EXPECT_THAT(output_of(run_checkpoint, {"verify", run.dir + "/step-00000001"}), testing::HasSubstr(": good"));
  EXPECT_ERROR(run_checkpoint({"list", run.folder / "absent"}), ErrorKind::io, "the folder does not exist");
  EXPECT_ERROR(run_checkpoint({}), ErrorKind::usage, "subcommand");
}

TEST(CheckpointCommand, PrunesButNotUnderARunningJob) {
  SavedRun run;
  {
    const RunLock lock(run.dir, this_owner(), false);
    EXPECT_ERROR(run_checkpoint({"prune", run.dir, "--keep", "1"}), ErrorKind::locked, "which is running");
  }
  EXPECT_THAT(output_of(run_checkpoint, {"prune", run.dir, "--keep", "1"}), testing::HasSubstr("deleted 1 checkpoint"));
  EXPECT_EQ(list_steps(run.dir), (std::vector<int64_t>{1, 3})) << "the best stays";
  EXPECT_ERROR(run_checkpoint({"prune", run.dir, "--keep", "0"}), ErrorKind::usage, "--keep");
}

}  // namespace
}  // namespace trireme
