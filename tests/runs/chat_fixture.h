#pragma once
// A tiny model with a tokenizer and a chat template, and commands that train it on conversations or pairs.

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/json_text.h"
#include "base/rng.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/huggingface/huggingface.h"
#include "tests/runs/special_tokens.h"
#include "tests/runs/training_fixture.h"

namespace trireme {

inline constexpr const char* kChatTemplate =
    "{%- for m in messages %}{{ '<s>' + m.role + ':' + m.content + '</s>\\n' }}{% endfor %}"
    "{%- if add_generation_prompt %}{{ '<s>assistant:' }}{% endif %}";

class ChatFixture : public ::testing::Test {
 protected:
  explicit ChatFixture(std::string command) : command_(std::move(command)) {
    std::filesystem::create_directory(path("model"));
    make_tokenizer();
    make_model();
  }
  std::string path(const std::string& name) const { return folder_ / name; }

  /// `COMMAND --model model --data data.jsonl --output NAME ...`, small and quiet.
  std::vector<std::string> words(const std::string& name, const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> all{
        command_, "--model",     path("model"), "--output",        path(name), "--sequence",
        "48",     "--batch",     "4",           "--learning-rate", "5e-3",     "--launch.threads",
        "1",      "--comm.wire", "f32",         "--log.every",     "1",        "--log.peak-tflops",
        "1"};
    if (std::ranges::find(flags, "--data") == flags.end()) all.insert(all.end(), {"--data", path("data.jsonl")});
    all.insert(all.end(), flags.begin(), flags.end());
    return all;
  }
  Outcome done(const std::string& name, const std::vector<std::string>& flags = {}, int ranks = 1) const {
    const Outcome outcome =
        run(ranks == 1 ? trireme_command(words(name, flags)) : mpirun_command(ranks, words(name, flags)));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome;
  }
  void expect_refused(int code, const std::string& message, const std::vector<std::string>& flags = {}) const {
    const Outcome outcome = run(trireme_command(words("refused", flags)));
    EXPECT_EQ(outcome.code, code) << outcome.output;
    EXPECT_THAT(outcome.output, testing::HasSubstr(message));
  }
  RunLog log_of(const std::string& name) const { return read_run_log(path(name) + "/metrics.jsonl"); }
  std::map<int64_t, double> losses(const std::string& name) const {
    std::map<int64_t, double> out;
    for (const Metrics& metrics : log_of(name).steps) out[metrics.step] = metrics.loss;
    return out;
  }
  std::vector<float> weights(const std::string& name) const {
    const CheckpointFolder folder = open_checkpoint(path(name));
    const ParameterTable table(folder.facts.spec);
    TrainingState state(table, DType::f32, false);
    load_weights(folder, table, state);
    const auto values = state.weights().values<float>();
    return {values.begin(), values.end()};
  }

  TemporaryFolder folder_;
  std::string command_;

 private:
  void make_tokenizer() const {
    write_text(path("text.txt"), "the cat sat on the mat and the dog had the hat");
    const Outcome trained = run(trireme_command(
        {"tokenizer", "train", "--input", path("text.txt"), "--vocab-size", "262", "--output", path("made")}));
    ASSERT_EQ(trained.code, 0) << trained.output;
    Json json = read_json(path("made/tokenizer.json"));
    add_special_tokens(json, 262);
    tokenizer_ = dump_json(json);
  }
  /// A random model.
  void make_model() const {
    Spec spec;
    spec.vocabulary = spec.vocabulary_rows = 272;
    spec.context = 64;
    spec.layers = 2;
    spec.heads = 2;
    spec.width = 32;
    spec.inner_width = 64;
    const ParameterTable table(spec);
    TrainingState state(table, DType::f32, false);
    initialize(state, table, 5);
    std::filesystem::remove(path("model"));
    export_huggingface(path("model"), spec, table, state, tokenizer_, DType::f32);
    write_text(path("model/chat_template.jinja"), kChatTemplate);
  }
  mutable std::string tokenizer_;
};

}  // namespace trireme
