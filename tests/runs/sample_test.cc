// `trireme sample` on a model that has learned one sentence by heart.

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/json_text.h"
#include "checkpoint/safetensors/safetensors.h"
#include "tests/runs/training_fixture.h"
#include "tests/support/paths.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class Sample : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    std::string documents;
    for (int i = 0; i < 300; ++i) documents += "{\"text\": \"the cat sat on the mat\"}\n";
    write_text(path("text.jsonl"), documents);
    write_text(path("words.txt"), "the cat sat on the mat\n");
    done({"tokenizer", "train", "--input", path("words.txt"), "--vocab-size", "270", "--output", path("tokenizer")});
    done({"prepare", "--input", path("text.jsonl"), "--tokenizer", path("tokenizer"), "--output", path("data"),
          "--val-fraction", "0.1"});
    done({"train",     "--data.dir",         path("data"), "--run.dir",
          path("run"), "--model.layers",     "2",          "--model.heads",
          "2",         "--model.width",      "32",         "--model.context",
          "32",        "--batch.global",     "8",          "--optim.learning-rate",
          "1e-2",      "--run.steps",        "80",         "--evaluation.every",
          "0",         "--checkpoint.every", "40",         "--launch.threads",
          "1",         "--log.peak-tflops",  "1"});
    done({"export", "--checkpoint", path("run"), "--output", path("exported")});
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string path(const std::string& name) { return *folder_ / name; }
  static void done(const std::vector<std::string>& arguments) {
    const Outcome outcome = run(trireme_command(arguments));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
  }
  static Outcome sample(std::vector<std::string> flags, const std::string& model = "run") {
    flags.insert(flags.begin(), {"sample", "--threads", "1", "--model", path(model)});
    return run(trireme_command(flags));
  }
  /// The JSON lines of the output, without other lines.
  static std::vector<Json> lines(const std::string& output) {
    std::vector<Json> out;
    std::istringstream in(output);
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("{")) out.push_back(parse_json(line, "sample"));
    }
    return out;
  }
  static void expect_refused(const std::vector<std::string>& flags, int code, const std::string& message,
                             const std::string& model = "run") {
    const Outcome outcome = sample(flags, model);
    EXPECT_EQ(outcome.code, code) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(message));
  }

  static std::unique_ptr<TemporaryFolder> folder_;
};
std::unique_ptr<TemporaryFolder> Sample::folder_;

/// An adapter of PEFT for the run's first block, large enough to change the text.
void write_adapter(const std::string& folder) {
  std::filesystem::create_directories(folder);
  write_text(folder + "/adapter_config.json",
             R"({"peft_type": "LORA", "r": 2, "lora_alpha": 16, "target_modules": ["c_attn"]})");
  const std::string name = "base_model.model.transformer.h.0.attn.c_attn.lora_";
  SafetensorsWriter writer(folder + "/adapter_model.safetensors",
                           {{name + "A.weight", "F32", {2, 32}}, {name + "B.weight", "F32", {96, 2}}}, {});
  for (size_t i = 0; i < 2; ++i) {
    std::vector<float> values(i == 0 ? 64 : 192);
    for (size_t at = 0; at < values.size(); ++at) values[at] = static_cast<float>(at * at % 17) / 8 - 1;
    writer.write(i, std::as_bytes(std::span(std::as_const(values))));
  }
  writer.commit();
}

TEST_F(Sample, AnAdapterGivesTheTextOfTheModelThatItIsMergedInto) {
  write_adapter(path("adapter"));
  done({"export", "--model", path("run"), "--adapter", path("adapter"), "--merge", "--output", path("merged")});
  const std::vector<std::string> flags{"--prompt", "the cat", "--greedy", "--max-new-tokens", "12", "--jsonl"};
  std::vector<std::string> adapted = flags;
  adapted.insert(adapted.end(), {"--adapter", path("adapter")});
  const auto text = [](const Outcome& outcome) {
    const auto records = lines(outcome.output);
    return records.size() == 1 ? records[0].at("text").get<std::string>() : outcome.output;
  };
  const std::string merged = text(sample(flags, "merged"));
  EXPECT_EQ(text(sample(adapted)), merged);
  EXPECT_EQ(text(sample(adapted, "exported")), merged);
  EXPECT_NE(text(sample(flags)), merged);
  adapted.insert(adapted.begin(), {"sample", "--threads", "1", "--model", path("run"), "--mesh.tensor", "2"});
  if (!mpirun_path().empty()) {
    EXPECT_EQ(text(run(mpirun_command(2, adapted))), merged);
  }
  expect_refused({"--adapter", path("run")}, 1, "is not an adapter of PEFT: it has no adapter_config.json");
  for (const auto& [flag, message] :
       {std::pair{"--merge", "--merge needs --adapter DIR, the adapter to add to the weights"},
        {"--adapter=x", "--adapter needs --merge: an export is a model, into which the adapter is merged"},
        {"--gguf-pre=x", "--gguf-pre needs --gguf"},
        {"--gguf=q9", "--gguf: q9 not in {f32,f16,bf16,q8_0,q6_k,q5_k_m,q4_k_m,q4_0}"}}) {
    const Outcome outcome = run(trireme_command({"export", "--model", path("run"), flag, "--output", path("refused")}));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.output, HasSubstr(message));
  }
}

TEST_F(Sample, ContinuesAndStopsAtTheEndOfTextFromARunAStepAndAHuggingFaceFolder) {
  for (const std::string model : {"run", "run/step-00000080", "exported"}) {
    for (const std::string dtype : {"f32", "bf16"}) {
      const Outcome outcome = sample({"--prompt", "the cat", "--greedy", "--jsonl", "--dtype", dtype}, model);
      const auto records = lines(outcome.output);
      ASSERT_EQ(records.size(), 1u) << outcome.output;
      EXPECT_EQ(records[0].at("context"), "the cat");
      EXPECT_EQ(records[0].at("text"), " sat on the mat") << model << " " << dtype;
      EXPECT_EQ(records[0].at("finished"), true);
    }
  }
}

TEST_F(Sample, ContinuesPastTheEndOfTextOnRequest) {
  const auto records = lines(
      sample({"--prompt", "the cat", "--greedy", "--jsonl", "--no-stop-at-end", "--max-new-tokens", "60"}).output);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].at("length"), 60);
  EXPECT_EQ(records[0].at("finished"), false);
  EXPECT_THAT(records[0].at("text").get<std::string>(), HasSubstr("the cat sat on the mat"));
}

TEST_F(Sample, StreamsPromptAndContinuationAsText) {
  EXPECT_THAT(sample({"--prompt", "the cat", "--greedy"}).output, HasSubstr("the cat sat on the mat\n"));
}

TEST_F(Sample, TakesAPromptFromEachLineOfAFile) {
  write_text(path("prompts.txt"), "the cat sat\r\n\nthe\n \t\nthe cat");
  const auto records = lines(sample({"--prompt-file", path("prompts.txt"), "--temperature", "0", "--jsonl"}).output);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].at("context"), "the cat sat");
  EXPECT_EQ(records[0].at("text"), " on the mat");
  EXPECT_EQ(records[1].at("context"), "the");
  EXPECT_EQ(records[2].at("text"), " sat on the mat");
  EXPECT_THAT(sample({"--prompt-file", path("prompts.txt"), "--greedy"}).output,
              HasSubstr("--- prompt 3 of 3\nthe cat sat on the mat\n"));
}

TEST_F(Sample, TakesJsonLinesAndWritesThemToAFile) {
  write_text(path("prompts.jsonl"),
             "\"the cat\"\n{\"prompt\": \"the cat sat\"}\n{\"text\": \"the cat\\u0020sat on\"}\n");
  const Outcome outcome =
      sample({"-i", path("prompts.jsonl"), "-o", path("out.jsonl"), "--greedy", "--num-samples", "2"});
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("wrote 6 samples to " + path("out.jsonl")));
  EXPECT_TRUE(lines(outcome.output).empty());
  const auto records = lines(read_text(path("out.jsonl")));
  ASSERT_EQ(records.size(), 6u);
  EXPECT_EQ(records[3].at("text"), " on the mat");
  EXPECT_EQ(records[5].at("context"), "the cat sat on");
  // The output is valid as prompts.
  const auto again = lines(sample({"--prompt-file", path("out.jsonl"), "--greedy", "--jsonl"}).output);
  ASSERT_EQ(again.size(), 6u);
  EXPECT_EQ(again[4].at("context"), " the mat");
}

TEST_F(Sample, SaysWhichLineOfAFileHoldsNoPrompt) {
  const auto refused = [&](const std::string& text, const std::string& message) {
    write_text(path("bad.jsonl"), text);
    expect_refused({"--prompt-file", path("bad.jsonl")}, 1, message);
  };
  refused("\x1f\x8b\x08" + std::string(30, '\0'),
          "bad.jsonl: is a gzip file, not text; give the text that it contains");
  refused("\n \n", "bad.jsonl has no prompt; expected one line of text per prompt");
  refused("\"a\"\n{\"prmpt\": \"b\"}\n", "bad.jsonl line 2: \"prompt\", \"text\" and \"context\" are missing");
  refused("{\"prompt\": 7}\n", "bad.jsonl line 1: \"prompt\" is number, expected text");
  refused("[1]\n", "bad.jsonl line 1: array, expected a text or an object with \"prompt\"");
  refused("the cat\n", "bad.jsonl line 1");
}

TEST_F(Sample, RanksThatHoldTheModelBetweenThemWriteWhatOneWrites) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const std::vector<std::string> flags{"sample", "--threads",     "1", "--model", path("run"), "--prompt",
                                       "the",    "--temperature", "2", "--jsonl"};
  const auto alone = lines(run(trireme_command(flags)).output);
  ASSERT_EQ(alone.size(), 1u);
  const std::pair<int, std::vector<std::string>> layouts[] = {
      {4, {"--mesh.tensor", "2", "--mesh.pipeline", "2"}},
      {3, {"--optim.shard", "parameters"}},
      {4, {"--optim.shard", "parameters", "--mesh.tensor", "2"}},
      {2, {"--mesh.pipeline", "2", "--mesh.stages", "1,1", "--output", path("of-ranks.jsonl")}}};
  for (const auto& [ranks, layout] : layouts) {
    auto words = flags;
    words.insert(words.end(), layout.begin(), layout.end());
    const Outcome outcome = run(mpirun_command(ranks, words));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    const auto together = lines(layout.size() > 4 ? read_text(path("of-ranks.jsonl")) : outcome.output);
    ASSERT_EQ(together.size(), 1u) << outcome.output;  // one of them prints
    EXPECT_EQ(together[0].at("text"), alone[0].at("text"));
  }
}

// A run that was resumed on other layouts has the model of a run on one process: a GPT-2, and a decoder with groups, a
// window and norms of queries and keys.
TEST_F(Sample, AModelOfChangingLayoutsWritesWhatOneProcessTaughtIt) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  using Options = std::vector<std::string>;
  write_text(path("gpt2.yaml"), "model: {heads: 2}\n");
  write_text(path("decoder.yaml"), R"(model:
  {heads: 4, key_heads: 2, norm: rms, norm_place: both, bias: false, gated: true, activation: silu, position: rotary,
   query_keys: head, window: 6, attention_layers: WF, logits_cap: 20}
)");
  write_text(path("run.yaml"), fmt::format(R"(data: {{dir: {}}}
model: {{layers: 2, width: 32, context: 32}}
batch: {{global: 8}}
optim: {{learning_rate: 1e-2, decay_steps: 60, epsilon: 1e-5}}
comm: {{wire: f32}}
evaluation: {{every: 0}}
checkpoint: {{every: 0}}
launch: {{threads: 1}}
log: {{peak_tflops: 1}}
)",
                                           path("data")));
  for (const std::string model : {"gpt2", "decoder"}) {
    const auto train = [&](const std::string& run_name, int ranks, const char* steps, Options layout) {
      layout.insert(layout.begin(), {"train", path("run.yaml"), path(model + ".yaml"), "--run.dir", path(run_name),
                                     "--run.steps", steps});
      const Outcome outcome = run(mpirun_command(ranks, layout));
      ASSERT_EQ(outcome.code, 0) << outcome.output;
    };
    const std::string one = model + "-one", changes = model + "-changes";
    train(one, 1, "60", {});
    train(changes, 4, "20", {"--mesh.tensor", "2", "--mesh.pipeline", "2", "--mesh.sequence", "true"});
    train(changes, 2, "40", {"--optim.shard", "parameters"});
    train(changes, 4, "60", {"--mesh.tensor", "2", "--optim.shard", "optimizer"});
    for (const Options& flags : {Options{"--greedy"}, {"--temperature", "1", "--seed", "5", "--num-samples", "4"}}) {
      Options words = {"--prompt", "the", "--jsonl", "--no-stop-at-end", "--max-new-tokens", "40"};
      words.insert(words.end(), flags.begin(), flags.end());
      auto want = lines(sample(words, one).output), got = lines(sample(words, changes).output);
      for (auto* records : {&want, &got})
        for (Json& record : *records) record.erase("duration_seconds");
      ASSERT_EQ(want.size(), flags.size() == 1 ? 1u : 4u) << model;
      EXPECT_EQ(got, want) << model;
    }
    const auto greedy = lines(sample({"--prompt", "the cat", "--greedy", "--jsonl"}, changes).output);
    ASSERT_EQ(greedy.size(), 1u) << model;
    EXPECT_EQ(greedy[0].at("text"), " sat on the mat") << model;
  }
}

TEST_F(Sample, APromptThatIsTypedReachesEveryRank) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const std::string command = fmt::format(
      "printf 'the cat\\nthe\\n' | {} -n 2 {} sample --threads 1 --model {} --greedy "
      "--interactive --mesh.tensor 2 2>/dev/null",
      mpirun_path(), trireme_path(), path("run"));
  const Outcome outcome = run({"/bin/sh", "-c", command});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(outcome.output, "the cat sat on the mat\nthe cat sat on the mat\n");
}

TEST_F(Sample, RanksThatAreNotThoseOfTheMeshAreRefused) {
  expect_refused({"--prompt", "a", "--mesh.tensor", "2", "--mesh.pipeline", "2"}, 2,
                 "--mesh.tensor 2 x --mesh.pipeline 2 need 4 ranks, but this process "
                 "was started without a launcher and is alone; start it as `mpirun -n 4 trireme ...`");
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const std::vector<std::string> words{"sample", "--threads", "1", "--model", path("run"), "--prompt", "a"};
  const Outcome several = run(mpirun_command(2, words));
  EXPECT_EQ(several.code, 2) << several.output;
  EXPECT_THAT(several.output, HasSubstr("need 1 rank, but "));
  EXPECT_THAT(several.output, HasSubstr(" started 2; set them to match, or start 1"));
  auto cut = words;
  cut.insert(cut.end(), {"--mesh.tensor", "3"});
  const Outcome odd = run(mpirun_command(3, cut));
  EXPECT_EQ(odd.code, 2) << odd.output;
  EXPECT_THAT(odd.output, HasSubstr("tensor 3 does not divide 2 heads; 1, 2 do"));
}

TEST_F(Sample, TakesNanoGptsWords) {
  write_text(path("start.txt"), "the cat\nsat");
  const auto whole = lines(sample({"--start=FILE:" + path("start.txt"), "--temperature=0", "--jsonl"}).output);
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].at("context"), "the cat\nsat");
  const Outcome outcome = run(trireme_command(
      {"sample", "--threads", "1", "--out_dir=" + path("run"), "--start=the cat", "--init_from=resume", "--device=cpu",
       "--compile=False", "--dtype=float32", "--num_samples=2", "--max_new_tokens=3", "--temperature=0", "--top_k=5"}));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("--- sample 2 of 2\nthe cat"));
}

TEST_F(Sample, TakesAPromptFromEachLineOfStandardInput) {
  const std::string command = fmt::format(
      "printf 'the\\nthe cat sat' | {} sample --threads 1 --model {} --interactive "
      "--greedy --jsonl",
      trireme_path(), path("run"));
  const Outcome outcome = run({"sh", "-c", command});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  const auto records = lines(outcome.output);
  ASSERT_EQ(records.size(), 2u) << outcome.output;
  EXPECT_EQ(records[0].at("context"), "the");
  EXPECT_EQ(records[1].at("text"), " on the mat");
}

TEST_F(Sample, TheSameSeedGivesTheSameTextsAndAnotherSeedOthers) {
  const auto texts = [](const std::string& seed) {
    std::vector<std::string> out;
    for (const Json& record : lines(sample({"--prompt", "the", "--temperature", "4", "--seed", seed, "--num-samples",
                                            "2", "--jsonl", "--no-stop-at-end", "--max-new-tokens", "20"})
                                        .output))
      out.push_back(record.at("text").get<std::string>());
    return out;
  };
  const auto first = texts("1");
  ASSERT_EQ(first.size(), 2u);
  EXPECT_NE(first[0], first[1]);
  EXPECT_EQ(texts("1"), first);
  EXPECT_NE(texts("2"), first);
}

TEST_F(Sample, OneCandidateIsGreedy) {
  for (const char* flag : {"--top-k", "--top-p"}) {
    const std::string value = std::string(flag) == "--top-k" ? "1" : "0.000001";
    const auto records = lines(sample({"--prompt", "the cat", "--jsonl", "--temperature", "5", flag, value}).output);
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0].at("text"), " sat on the mat") << flag;
  }
}

TEST_F(Sample, RefusesWhatItCannotDo) {
  expect_refused({"--temperature", "-1"}, 2,
                 "--temperature is -1, expected a number above 0, or 0 for the most probable");
  expect_refused({"--top-p", "1.5"}, 2, "--top-p is 1.5, expected a number above 0 and at most 1");
  expect_refused({"--top-k", "-1"}, 2, "--top-k is -1, expected at least 1, or 0 for all tokens");
  expect_refused({"--num-samples", "0"}, 2, "--num-samples");
  expect_refused({"--unknown", "1"}, 2, "--unknown");
  expect_refused({"--prompt", "a", "--prompt-file", "b"}, 2, "--prompt and --prompt-file were both given; use one");
  expect_refused({"--start", "a", "--prompt-file", "b"}, 2, "--start and --prompt-file were both given; use one");
  expect_refused({"--prompt", "FILE:x"}, 2,
                 "--prompt FILE:x would be used as text; use --start FILE:x for the whole file as one prompt");
  expect_refused({"--start", "FILE:" + path("absent")}, 1, "cannot open " + path("absent"));
  expect_refused({"--prompt", "a", "--output", path("none/o.jsonl")}, 1,
                 "cannot create " + path("none/o.jsonl.partial"));
  expect_refused({"--prompt", "a", "--interactive"}, 2, "--interactive reads its prompts from standard input");
  expect_refused({"--prompt-file", path("absent")}, 1, "cannot open " + path("absent"));
  expect_refused({"--prompt", "a"}, 1, path("absent") + " does not exist", "absent");
  expect_refused({"--prompt", "a"}, 1, path("data"), "data");
}

TEST_F(Sample, SaysThatAFolderHasNoTokenizer) {
  std::filesystem::copy(path("exported"), path("mute"));
  std::filesystem::remove(path("mute") + "/tokenizer.json");
  expect_refused({"--prompt", "a"}, 1, "has no tokenizer; add the model's tokenizer.json", "mute");
}

TEST_F(Sample, TrainingAModelOnDataOfAnotherTokenizerGivesAWarning) {
  done({"prepare", "--input", path("words.txt"), "--tokenizer", "char", "--output", path("letters"), "--val-fraction",
        "0"});
  const auto fine_tuned = [&](const std::string& data) {
    const Outcome outcome =
        run(trireme_command({"train", "--model.init", path("exported"), "--data.dir", path(data), "--data.validation",
                             "", "--run.dir", path("from-" + data), "--batch.global", "2", "--batch.sequence", "8",
                             "--run.steps", "1", "--launch.threads", "1"}));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome.output;
  };
  EXPECT_THAT(
      fine_tuned("letters"),
      testing::ContainsRegex("warning: the data has another tokenizer than .*/exported: id 0 is .* in the data's "
                             "tokenizer and .* in the model's \\([0-9]+ of [0-9]+ ids differ\\)"));
  EXPECT_THAT(fine_tuned("data"), testing::Not(HasSubstr("another tokenizer")));
}

TEST_F(Sample, TextThatADiskDoesNotTakeIsAnError) {
  for (const char* form : {"--jsonl", "--greedy"}) {
    const Outcome full = run({"sh", "-c", "exec \"$@\" >/dev/full", "sh", trireme_path(), "sample", "--model",
                              path("run"), "--threads", "1", "--prompt", "the", form});
    EXPECT_EQ(full.code, 1) << form;
    EXPECT_THAT(full.output, HasSubstr("error: cannot write all of the output"));
  }
}

TEST_F(Sample, AFolderMayHoldVocabJsonWithMergesInPlaceOfTokenizerJson) {
  std::filesystem::copy(path("exported"), path("older"));
  const Json tokenizer = read_json(path("older/tokenizer.json"));
  Json vocabulary = tokenizer.at("model").at("vocab");
  for (const Json& added : tokenizer.at("added_tokens"))
    vocabulary[added.at("content").get<std::string>()] = added.at("id");
  std::string merges = "#version: 0.2\n";
  for (const Json& merge : tokenizer.at("model").at("merges")) merges += merge.get<std::string>() + "\n";
  write_text(path("older/vocab.json"), dump_json(vocabulary));
  write_text(path("older/merges.txt"), merges);
  std::filesystem::remove(path("older/tokenizer.json"));

  const std::vector<std::string> flags = {"--prompt", "the cat", "--greedy", "--max-new-tokens", "6", "--jsonl"};
  const std::string text = lines(sample(flags, "exported").output).at(0).at("text");
  EXPECT_EQ(lines(sample(flags, "older").output).at(0).at("text"), text);
  done({"export", "--model", path("older"), "--output", path("again")});
  EXPECT_EQ(lines(sample(flags, "again").output).at(0).at("text"), text);
}

}  // namespace
}  // namespace trireme
