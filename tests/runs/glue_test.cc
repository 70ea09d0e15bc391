// Fine-tuning as a user runs it.

#include <cmath>

#include "base/json_text.h"
#include "tests/runs/glue_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

using Glue = GlueFixture;

TEST_F(Glue, LearnsATaskAndWritesWhatTheRecipeWrites) {
  const Outcome outcome =
      run_on(1, "out", {"--do_train", "--do_eval", "--do_predict", "True", "--num_train_epochs", "8"});
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  const Json all = json("out/all_results.json");
  EXPECT_EQ(all["epoch"], 8.0);
  EXPECT_EQ(all["train_samples"], 203);
  EXPECT_EQ(all["train_samples"].dump(), "203");  // counts are integers
  EXPECT_EQ(all["eval_samples"].dump(), "50");
  EXPECT_THAT(outcome.output, HasSubstr("train_samples            =          203\n"));
  EXPECT_THAT(read_text(path("out/README.md")), HasSubstr("| eval_samples | 50 |"));
  EXPECT_GE(all["eval_accuracy"].get<double>(), 0.95) << outcome.output;
  EXPECT_EQ(all["eval_samples"], 50);
  EXPECT_DOUBLE_EQ(all["eval_combined_score"].get<double>(),
                   (all["eval_accuracy"].get<double>() + all["eval_f1"].get<double>()) / 2);
  EXPECT_TRUE(all.contains("train_loss") && all.contains("train_samples_per_second") && all.contains("eval_loss"));
  EXPECT_FALSE(json("out/train_results.json").contains("eval_loss"));
  EXPECT_FALSE(json("out/eval_results.json").contains("train_loss"));
  EXPECT_EQ(losses("out").size(), 8u * 26u);  // ceil(203 / 8) steps per epoch
  std::string expected = "index\tprediction\n";
  for (int i = 0; i < 7; ++i) expected += fmt::format("{}\t{}\n", i, i % 2 ? "equivalent" : "not_equivalent");
  EXPECT_EQ(read_text(path("out/predict_results_mrpc.txt")), expected);
  EXPECT_EQ(json("out/config.json")["id2label"]["1"], "equivalent");
  for (const char* name : {"model.safetensors", "vocab.txt", "tokenizer.json", "tokenizer_config.json", "README.md"})
    EXPECT_TRUE(fs::exists(path("out/") + name)) << name;
  EXPECT_THAT(outcome.output, HasSubstr("***** eval metrics *****"));
  EXPECT_THAT(outcome.output, ::testing::ContainsRegex("memory: planned [0-9.]+ GB, peak [0-9.]+ GB\n"));

  // The output is a model: it evaluates to the same numbers.
  auto words = glue("again", {"--do_eval"});
  words[2] = path("out");
  const Outcome again = run(trireme_command(words));
  ASSERT_EQ(again.code, 0) << again.output;
  EXPECT_EQ(json("again/eval_results.json")["eval_loss"], all["eval_loss"]);
  EXPECT_THAT(again.output, ::testing::ContainsRegex("memory: planned [0-9.]+ GB, peak [0-9.]+ GB\n"));
}

TEST_F(Glue, GivesTheSameLossesPackedAndPadded) {
  const std::vector<std::string> flags{"--do_train", "--max_steps", "30", "--do_eval"};
  ASSERT_EQ(run_on(1, "packed", flags).code, 0);
  auto padding = flags;
  padding.insert(padding.end(), {"--pad_to_max_length", "True", "--max_seq_length", "32"});
  const Outcome padded = run_on(1, "padded", padding);
  ASSERT_EQ(padded.code, 0) << padded.output;
  EXPECT_THAT(padded.output, HasSubstr("padded to 32"));
  expect_same_losses("packed", "padded", 2e-5);
  EXPECT_NEAR(json("padded/eval_results.json")["eval_loss"].get<double>(),
              json("packed/eval_results.json")["eval_loss"].get<double>(), 1e-5);
}

TEST_F(Glue, EndsWithTheTimeOfAStepBesideItsPlan) {
  // Longer than the two seconds from which on steps are judged, on a fast machine, too.
  const Outcome outcome = run_on(1, "long", {"--do_train", "--num_train_epochs", "800"});
  EXPECT_THAT(outcome.output, ::testing::ContainsRegex(
                                  "step of [0-9]+ tokens on average: [0-9.]+ s planned with the rates of this machine "
                                  "\\(.*\\), [0-9.]+ s measured \\([+-][0-9.]+ %\\)"));
}

TEST_F(Glue, TakesNoPaddingFromTheTokenizersFile) {
  ASSERT_EQ(run_on(1, "plain", {"--do_train", "--max_steps", "3"}).code, 0);
  Json tokenizer = json("model/tokenizer.json");
  tokenizer["padding"] = {{"strategy", {{"Fixed", 24}}},
                          {"direction", "Right"},
                          {"pad_to_multiple_of", nullptr},
                          {"pad_id", 0},
                          {"pad_type_id", 0},
                          {"pad_token", "[PAD]"}};
  write_text(path("model/tokenizer.json"), tokenizer.dump());
  ASSERT_EQ(run_on(1, "padding", {"--do_train", "--max_steps", "3"}).code, 0);
  EXPECT_EQ(losses("padding"), losses("plain"));
}

TEST_F(Glue, GivesTheSameLossesOnAnyNumberOfRanks) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  for (const int ranks : {1, 2, 4}) {
    const Outcome outcome = run_on(ranks, fmt::format("on-{}", ranks),
                                   {"--do_train", "--do_eval", "--num_train_epochs", "1",
                                    "--per_device_train_batch_size", std::to_string(8 / ranks)});
    ASSERT_EQ(outcome.code, 0) << outcome.output;
  }
  expect_same_losses("on-1", "on-2", 2e-5);
  expect_same_losses("on-1", "on-4", 2e-5);
  EXPECT_EQ(losses("on-4").size(), 26u);
  const double loss = json("on-1/eval_results.json")["eval_loss"];
  EXPECT_NEAR(json("on-4/eval_results.json")["eval_loss"].get<double>(), loss, 1e-4);
  EXPECT_EQ(json("on-4/eval_results.json")["eval_samples"], 50);
}

TEST_F(Glue, RefusesOtherRowsOnOneRankNamingFileAndRows) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  // Each rank works in its own folder and reads the rows below it, as hosts with their own files do.
  const auto run_apart = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> words = glue("out", flags);
    std::string text;
    for (const std::string& word : words) text += " " + (word == path("data") ? "data" : word);
    return run({mpirun_path(), "-n", "3", "sh", "-c",
                "cd " + path("host") + "${OMPI_COMM_WORLD_RANK:-$PMI_RANK} && exec " + trireme_path() + text});
  };
  for (const char* rank : {"0", "1", "2"}) {
    std::filesystem::create_directories(path("host") + rank);
    std::filesystem::copy(path("data"), path("host") + rank + "/data", std::filesystem::copy_options::recursive);
  }
  const Outcome same = run_apart({"--do-eval"});
  EXPECT_EQ(same.code, 0) << same.output;
  write_rows("host1/data/MRPC/dev.tsv", 50, 3);
  const Outcome other = run_apart({"--do-eval"});
  EXPECT_EQ(other.code, 2) << other.output;
  EXPECT_THAT(other.output,
              testing::ContainsRegex("error: ranks do not have the same rows: rank 1 on [^ ]+ differs from "
                                     "the other 2; rank 0 has \"data/MRPC/dev.tsv: rows 1 to 1 have "));
  write_rows("host2/data/MRPC/train.tsv", 202, 1);
  const Outcome fewer = run_apart({"--do-train", "--overwrite_output_dir"});
  EXPECT_EQ(fewer.code, 2) << fewer.output;
  EXPECT_THAT(fewer.output,
              HasSubstr("rank 0 has \"data/MRPC/train.tsv: 203 rows\", rank 2 has "
                        "\"data/MRPC/train.tsv: 202 rows\"; copy the files and the tokenizer to that host again"));
}

TEST_F(Glue, ResumesFromACheckpointToTheSameBits) {
  const std::vector<std::string> flags{"--do_train", "--lr_scheduler_type", "constant", "--save_steps",
                                       "4",          "--save_total_limit",  "1",        "--model.dropout",
                                       "0.1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), flags.begin(), flags.end());
    return more;
  };
  ASSERT_EQ(run_on(1, "whole", with({"--max_steps", "30"})).code, 0);
  ASSERT_EQ(run_on(1, "parts", with({"--max_steps", "28"})).code, 0);
  EXPECT_TRUE(fs::exists(path("parts/step-00000028")));
  EXPECT_FALSE(fs::exists(path("parts/step-00000024")));
  const Outcome second = run_on(1, "parts", with({"--max_steps", "30"}));
  ASSERT_EQ(second.code, 0) << second.output;
  EXPECT_THAT(second.output, HasSubstr("RESUMING from"));
  EXPECT_EQ(losses("parts"), losses("whole"));
  EXPECT_EQ(read_text(path("parts/model.safetensors")), read_text(path("whole/model.safetensors")));

  const Outcome other = run_on(1, "parts", with({"--max_steps", "40", "--seed", "7"}));
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.output, HasSubstr("was trained with --seed 42, now it is 7; use the same seed, or name another"));
  const Outcome smooth = run_on(1, "parts", with({"--max_steps", "40", "--label_smoothing_factor", "0.1"}));
  EXPECT_EQ(smooth.code, 2);
  EXPECT_THAT(smooth.output, HasSubstr("was trained with --label-smoothing-factor 0, now it is 0.1; use the same "
                                       "factor, or name another --output-dir"));
  ASSERT_EQ(run_on(1, "smooth", with({"--max_steps", "4", "--label_smoothing_factor", "0.25"})).code, 0);
  ASSERT_EQ(run_on(1, "smooth", with({"--max_steps", "8", "--label_smoothing_factor", "0.25"})).code, 0);
  const Outcome plain = run_on(1, "smooth", with({"--max_steps", "12"}));
  EXPECT_EQ(plain.code, 2);
  EXPECT_THAT(plain.output, HasSubstr("was trained with --label-smoothing-factor 0.25, now it is 0; use the same"));
  const Outcome fewer = run_on(1, "parts", with({"--max_steps", "40", "--max_train_samples", "64"}));
  EXPECT_EQ(fewer.code, 2);
  EXPECT_THAT(fewer.output, ::testing::ContainsRegex("was trained on other rows: [0-9]+ ids of .*train.tsv \\(XXH3 "
                                                     "[0-9a-f]+\\), now [0-9]+ ids of .*--max-train-samples"));
  EXPECT_THAT(fewer.output, ::testing::Not(HasSubstr("seed")));
  const Outcome batch = run_on(1, "parts", with({"--max_steps", "40", "--per_device_train_batch_size", "4"}));
  EXPECT_EQ(batch.code, 2);
  EXPECT_THAT(batch.output, HasSubstr("was trained with 8 rows per rank and step"));
  EXPECT_THAT(batch.output, HasSubstr("8 over all ranks, now with 4 and 4; use the same values"));
  const Outcome anew = run_on(1, "parts", with({"--max_steps", "2", "--seed", "7", "--overwrite_output_dir"}));
  ASSERT_EQ(anew.code, 0) << anew.output;
  EXPECT_FALSE(fs::exists(path("parts/step-00000028")));
}

TEST_F(Glue, ResumesWithoutItsFirstModel) {
  const auto with = [](const char* steps) {
    return std::vector<std::string>{"--do_train",          "--do_eval", "--max_steps",  steps,
                                    "--lr_scheduler_type", "constant",  "--save_steps", "4"};
  };
  ASSERT_EQ(run_on(1, "whole", with("8")).code, 0);
  ASSERT_EQ(run_on(1, "parts", with("4")).code, 0);
  fs::rename(path("model"), path("moved"));
  const Outcome second = run_on(1, "parts", with("8"));
  ASSERT_EQ(second.code, 0) << second.output;
  EXPECT_THAT(second.output, HasSubstr("RESUMING from"));
  EXPECT_THAT(second.output,
              HasSubstr("the model " + path("model") + " no longer exists; model and tokenizer are taken from "));
  EXPECT_EQ(losses("parts"), losses("whole"));
  EXPECT_EQ(read_text(path("parts/model.safetensors")), read_text(path("whole/model.safetensors")));
  EXPECT_EQ(read_text(path("parts/tokenizer.json")), read_text(path("whole/tokenizer.json")));
  const Outcome anew = run_on(1, "new", with("4"));
  EXPECT_EQ(anew.code, 1) << "a new run needs it";
}

TEST_F(Glue, WritesTheSpecialIdsOfTheModelsFolderBack) {
  Json config = json("model/config.json");
  const Json ids = {{"pad_token_id", 0}, {"cls_token_id", 2}, {"sep_token_id", 3},
                    {"bos_token_id", 2}, {"eos_token_id", 3}, {"max_length", 20}};
  config.update(ids);
  write_text(path("model/config.json"), dump_json(config));
  const Json generation = {{"eos_token_id", 3}, {"transformers_version", "4.40.0"}};
  write_text(path("model/generation_config.json"), dump_json(generation));
  const auto expect_ids = [&](const std::string& name) {
    const Json written = json(name + "/config.json");
    for (const auto& [key, id] : ids.items()) EXPECT_EQ(written.value(key, Json()), id) << name << " " << key;
    EXPECT_EQ(json(name + "/generation_config.json"), generation) << name;
  };
  const auto train = [&](const char* steps) {
    const Outcome outcome =
        run_on(1, "out", {"--do_train", "--max_steps", steps, "--save_steps", "1", "--lr_scheduler_type", "constant"});
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    expect_ids("out");
  };
  const auto convert = [&](const std::string& to) {
    const Outcome outcome =
        run(trireme_command({"export", "--checkpoint", path("out/step-00000002"), "--output", path(to)}));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    expect_ids(to);
  };
  train("2");
  convert("exported");
  fs::rename(path("model"), path("moved"));  // a resume has them from the snapshot
  train("3");
}

TEST_F(Glue, AcceptsTheUsersOwnRowsAndNumbersToPredict) {
  write_text(path("t.csv"), "sentence,label\nw1 w2,0.5\ngood w3,2.5\nw4,0.25\ngood,2.75\n");
  write_text(path("config.json"), Json{{"model_name_or_path", path("model")},
                                       {"train_file", path("t.csv")},
                                       {"validation_file", path("t.csv")},
                                       {"test_file", path("t.csv")},
                                       {"output_dir", path("own")},
                                       {"do_train", true},
                                       {"do_eval", true},
                                       {"do_predict", true},
                                       {"num_train_epochs", 150},
                                       {"max_seq_length", 16},
                                       {"learning_rate", 2e-3},
                                       {"eval_strategy", "epoch"}}
                                      .dump());
  const Outcome outcome = run(trireme_command({"glue", path("config.json")}));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_LT(json("own/eval_results.json")["eval_mse"].get<double>(), 0.2) << outcome.output;
  EXPECT_THAT(read_text(path("own/predict_results_None.txt")), testing::StartsWith("index\tprediction\n0\t0."));
  EXPECT_EQ(json("own/config.json")["problem_type"], "regression");

  // The head has one class now, MRPC two.
  auto words = glue("other", {"--do_eval"});
  words[2] = path("own");
  const Outcome other = run(trireme_command(words));
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.output, HasSubstr("classifier.weight: shape [1, 32], expected [2, 32]"));
  words.push_back("--ignore_mismatched_sizes");
  words[6 + 2] = path("anew");
  const Outcome renewed = run(trireme_command(words));
  EXPECT_EQ(renewed.code, 0) << renewed.output;
  EXPECT_THAT(renewed.output, HasSubstr("its head is for another task with other classes; a new one is initialised: "
                                        "classifier.bias ([1] there, [2] here), "
                                        "classifier.weight ([1, 32] there, [2, 32] here)"));
  EXPECT_THAT(renewed.output, HasSubstr("was not trained on mrpc"));
}

TEST_F(Glue, SaysWhatIsWrongWithItsArguments) {
  const auto fails = [&](const std::vector<std::string>& flags, const std::string& text) {
    const Outcome outcome = run_on(1, "wrong", flags);
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(text));
  };
  fails({}, "nothing to do: add --do-train, --do-eval or --do-predict");
  fails({"--do_train", "--fp16", "--use_cpu"},
        "precision.dtype (flag --fp16) is f16, which is unsupported for training on CPUs; set --bf16");
  fails({"--do_train", "maybe"}, "--do-train is \"maybe\", expected True or False");
  fails({"--do_train", "--learning_rate", "1e39"}, "--learning-rate: 1e39 given, expected a number from 0 to 100");
  fails({"--do_train", "--weight_decay", "1e39"}, "--weight-decay: 1e39 given, expected a number from 0 to 100");
  fails({"--do_train", "--label_smoothing_factor", "1.5"}, "--label-smoothing-factor is 1.5, expected 0 to 1");
  fails({"--do_train", "--optim.clip", "2"}, "\"--optim.clip\" cannot be given to glue");
  fails({"--do_train", "--warmup_ratio", "2"}, "--warmup-ratio is 2, expected a fraction of the steps from 0 to 1");
  fails({"--do_train", "--num_train_epochs", "0"}, "--num-train-epochs: 0 given, expected a number above 0");
  fails({"--do_train", "--learning_rates", "1"}, "not expected: --learning-rates 1; ");
  write_text(path("model.gguf"), "GGUF" + std::string(64, '\0'));
  auto words = glue("wrong", {"--do_eval"});
  words[2] = path("model.gguf");
  EXPECT_THAT(run(trireme_command(words)).output, HasSubstr("format GGUF is recognised but not supported; convert"));
  fs::create_directories(path("full"));
  write_text(path("full/thesis.txt"), "mine");
  const Outcome full = run_on(1, "full", {"--do_train"});
  EXPECT_EQ(full.code, 2);
  EXPECT_THAT(full.output, HasSubstr("exists and holds files, but no checkpoint to resume"));
  EXPECT_EQ(read_text(path("full/thesis.txt")), "mine");
  EXPECT_FALSE(fs::exists(path("full/lock")));
}

}  // namespace
}  // namespace trireme
