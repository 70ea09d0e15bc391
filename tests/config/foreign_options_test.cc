#include "config/foreign_options.h"

#include <gmock/gmock.h>

#include "config/flag_word.h"
#include "config/load.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using Words = std::vector<std::string>;

/// As a command that has these options of its own.
Words taken(const std::string& command, Words words, const Words& own = {}) {
  const auto knows = [&](const std::string& name) { return std::ranges::find(own, name) != own.end(); };
  require_none(take_foreign_options(command, knows, words));
  return words;
}

TEST(ForeignOptions, AreRenamedWithTheirValueHoweverItIsWritten) {
  EXPECT_THAT(taken("sample", {"--out_dir=o", "--seed", "1"}), ElementsAre("--model=o", "--seed", "1"));
  EXPECT_THAT(taken("sample", {"--out-dir", "o"}), ElementsAre("--model", "o"));
  EXPECT_THAT(taken("launch", {"-i", "h1@h2:0"}), ElementsAre("--include", "h1@h2:0"));
  EXPECT_THAT(taken("prepare", {"--workers", "2"}), ElementsAre("--threads", "2"));
}

TEST(ForeignOptions, ValuesOfOthersBecomeOurs) {
  EXPECT_THAT(taken("sample", {"--dtype=bfloat16"}, {"--dtype"}), ElementsAre("--dtype=bf16"));
  EXPECT_THAT(taken("bench step", {"--dtype", "float32", "--steps", "3"}, {"--dtype"}),
              ElementsAre("--dtype=f32", "--steps", "3"));
  EXPECT_THAT(taken("sample", {"--dtype", "bf16"}, {"--dtype"}), ElementsAre("--dtype", "bf16"));
  EXPECT_ERROR(taken("sample", {"--dtype=float16"}, {"--dtype"}), ErrorKind::config,
               "--dtype float16 is not supported; instead: --dtype f32 or --dtype bf16");
}

TEST(ForeignOptions, WithoutEffectTheyGoWithTheirValue) {
  EXPECT_THAT(taken("sample", {"--compile=False", "--seed", "1"}), ElementsAre("--seed", "1"));
  EXPECT_THAT(taken("sample", {"--device", "cuda:0"}), ElementsAre("--device=cuda"));
  EXPECT_THAT(taken("bench step", {"--device", "cuda:0"}), ElementsAre("--device=cuda"));
  EXPECT_THAT(taken("launch", {"--machine_rank", "0", "--use_cpu", "--multi_gpu", "--np", "2"}, {"--np", "--cpu"}),
              ElementsAre("--cpu", "--np", "2"));
  EXPECT_THAT(taken("launch", {"--use_cpu=False"}, {"--cpu"}), ElementsAre());
  EXPECT_THAT(taken("bench step", {"--real_data=False"}), ElementsAre());
}

TEST(ForeignOptions, AreRefusedWithWhatToTypeInstead) {
  EXPECT_ERROR(taken("launch", {"-H", "lh"}), ErrorKind::config,
               "-H lh is not supported; instead: --hostfile FILE, or --hosts a,b:2 for the names themselves");
  EXPECT_ERROR(taken("bench step", {"--real_data=True"}), ErrorKind::config, "instead: --data FILE, a train.bin");
  EXPECT_ERROR(taken("prepare", {"--vocab-file", "v.json"}), ErrorKind::config, "a FOLDER with vocab.json");
  EXPECT_ERROR(taken("launch", {"--tpu"}), ErrorKind::config,
               "--tpu is not supported; instead: --np N with --ppn N: ranks take a GPU each if all hosts have them");
  EXPECT_ERROR(taken("launch", {"--no_ssh"}), ErrorKind::config,
               "--no-ssh is not supported; instead: --agents, with `trireme agent` on every other host");
}

TEST(ForeignOptions, AllProblemsOfACommandLineAreInOneMessage) {
  EXPECT_ERROR(
      taken("launch", {"-H", "lh", "--np", "2", "--tpu", "-wdir", "/tmp"}, {"--np"}), ErrorKind::config,
      "3 settings cannot be used here:\n  -H lh is not supported; instead: --hostfile FILE, or --hosts a,b:2 for "
      "the names themselves\n  --tpu is not supported; instead: --np N with --ppn N: ranks take a GPU each if "
      "all hosts have them\n  -wdir /tmp is not supported; instead: `cd FOLDER` before launch");
  // run_glue's
  EXPECT_ERROR(taken("glue", {"--fsdp", "full_shard", "--optim=sgd", "--seed", "1"}, {"--seed"}), ErrorKind::config,
               "2 settings cannot be used here:\n  --fsdp full_shard is not supported; instead: mpirun -n N trireme "
               "glue\n  --optim sgd is not supported; instead: AdamW");
  // metaseq's flags beside unknown ones, and values of the wrong kind
  EXPECT_ERROR(
      split_words({"--model-size", "125m", "-p", "run1", "--optim.lerning-rate", "1"}), ErrorKind::config,
      "3 settings cannot be used here:\n  --model-size 125m is not supported; instead: --model.preset opt-125m, or "
      "configs/opt-125m.yaml, and so on\n  -p run1 is not supported; instead: --run.dir DIR\n  flag "
      "--optim.lerning-rate: unknown option \"optim.lerning-rate\"; did you mean \"optim.learning-rate\"?");
  EXPECT_ERROR(
      load_config({}, {"--run.stepz", "3", "--optim.clip", "big", "--batch.global", "0"}), ErrorKind::config,
      "3 settings cannot be used here:\n  flag --run.stepz: unknown option \"run.stepz\"; did you mean "
      "\"run.steps\"?\n  --optim.clip is \"big\", expected a number from 0 to 1000000000\n  --batch.global is 0");
  EXPECT_ERROR(load_config({}, {"--batch_size", "x", "--n_layer", "y", "--run.stepz", "1"}, "nanogpt"),
               ErrorKind::config, "3 settings cannot be used here:\n");
}

TEST(ForeignOptions, OfMpirunAndAccelerateAreAnsweredBeforeTheStart) {
  EXPECT_THAT(taken("launch", {"-l", "--tag-output", "--allow-run-as-root", "--multi_cpu", "--dynamo_backend", "no",
                               "--num_cpu_threads_per_process", "16", "--npernode=2"}),
              ElementsAre("--threads", "16", "--ppn=2"));
  EXPECT_THAT(taken("launch", {"--bind-to", "core", "-bind-to", "none"}), ElementsAre());
  EXPECT_ERROR(taken("launch", {"-genvall"}), ErrorKind::config, "instead: --env NAME=VALUE for each variable");
  EXPECT_ERROR(taken("launch", {"-bind-to", "socket"}), ErrorKind::config, "instead: no flag, because each rank binds");
}

TEST(ForeignOptions, WhatACommandHasItselfIsItsOwn) {
  EXPECT_THAT(taken("hosts", {"-i", "x"}, {"-i"}), ElementsAre("-i", "x"));
  EXPECT_THAT(taken("sample", {"--prompt", "--", "a", "-1"}), ElementsAre("--prompt", "--", "a", "-1"));
  EXPECT_THAT(taken("parity", {"--out_dir", "x"}), ElementsAre("--out_dir", "x"));
}

TEST(ForeignOptions, OfTrainingAreReadWithItsWords) {
  const ConfigWords words = split_words({"a.yaml", "--max-update", "50", "--seed=7"});
  EXPECT_THAT(words.files, ElementsAre("a.yaml"));
  EXPECT_THAT(words.flags, ElementsAre("--run.steps", "50", "--run.seed=7"));
  EXPECT_ERROR(split_words({"--model-size", "125m"}), ErrorKind::config,
               "--model-size 125m is not supported; instead: --model.preset opt-125m");
  EXPECT_ERROR(split_words({"-p", "run1"}), ErrorKind::config, "-p run1 is not supported; instead: --run.dir DIR");
  EXPECT_ERROR(split_words({"--task_name", "mrpc"}), ErrorKind::config, "instead: `trireme glue`, which takes");
  EXPECT_ERROR(split_words({"--data", "d"}), ErrorKind::config, "--data.dir DIR, with train.bin and val.bin");
}

TEST(ForeignOptions, OfSamplingSayWhereTheyBelongWithoutADialectToo) {
  EXPECT_ERROR(load_config({}, {"--start=a"}), ErrorKind::config,
               "unknown option \"start\"; key of dialect nanogpt: it belongs to sampling: `trireme sample --model RUN "
               "--start TEXT`");
  EXPECT_ERROR(load_config({}, {"--num_samples", "3"}, "nanogpt"), ErrorKind::config,
               "`trireme sample --model RUN --num-samples N`");
  EXPECT_ERROR(load_config({}, {"--real_data=False"}, "nanogpt"), ErrorKind::config,
               "it belongs to benchmarks: `trireme bench step`, with --data FILE for real tokens");
}

}  // namespace
}  // namespace trireme
