// run_glue's arguments, as its users write them.
#include "cli/train/tuning_flags.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "cli/command.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using Words = std::vector<std::string>;

/// The least that a run needs, and more.
GlueOptions read(const Words& more, const std::string& task = "mrpc") {
  Words words{"--model_name_or_path", "m", "--task_name", task, "--output_dir", "o", "--do_train"};
  words.insert(words.end(), more.begin(), more.end());
  return read_glue_flags(words);
}

TEST(GlueFlags, DefaultsAreRunGlues) {
  const GlueOptions o = read({});
  EXPECT_EQ(o.config().model.init, "m");
  EXPECT_EQ(o.rows.task, "mrpc");
  EXPECT_EQ(o.config().batch.sequence, 128);
  EXPECT_EQ(o.config().batch.micro, 8);
  EXPECT_EQ(o.evaluation_batch, 8);
  EXPECT_EQ(o.config().batch.accumulation, 1);
  EXPECT_EQ(o.config().optim.learning_rate, 5e-5);
  EXPECT_EQ(o.config().optim.weight_decay, 0);
  EXPECT_EQ(o.config().optim.beta1, 0.9);
  EXPECT_EQ(o.config().optim.beta2, 0.999);
  EXPECT_EQ(o.config().optim.epsilon, 1e-8);
  EXPECT_EQ(o.config().optim.clip, 1);
  EXPECT_EQ(o.epochs, 3);
  EXPECT_EQ(o.max_steps, -1);
  EXPECT_EQ(o.config().optim.schedule, RateCourse::linear);
  EXPECT_EQ(warmup_of(o, 345), 0);
  EXPECT_EQ(o.logging.strategy, Strategy::steps);
  EXPECT_EQ(o.logging.steps, 500);
  EXPECT_EQ(o.saving.strategy, Strategy::steps);
  EXPECT_EQ(o.saving.steps, 500);
  EXPECT_EQ(o.config().checkpoint.keep, 0);
  EXPECT_EQ(o.evaluation.strategy, Strategy::no);
  EXPECT_EQ(o.config().run.seed, 42);
  EXPECT_EQ(o.config().precision.dtype, DType::f32);
  EXPECT_FALSE(o.config().run.overwrite || o.evaluate || o.predict);
  EXPECT_TRUE(o.trains());
}

TEST(GlueFlags, TakeTheCommandOfTheClusterRecipe) {
  const GlueOptions o = read({"--do_eval",
                              "--max_seq_length",
                              "128",
                              "--per_device_train_batch_size",
                              "32",
                              "--learning_rate",
                              "2e-5",
                              "--num_train_epochs",
                              "3.0",
                              "--xpu_backend",
                              "ccl",
                              "--no_cuda",
                              "True",
                              "--local_rank",
                              "-1",
                              "--overwrite_output_dir",
                              "--ddp_bucket_cap_mb",
                              "25",
                              "--fp16",
                              "False",
                              "--dataloader_drop_last=False",
                              "--label_smoothing_factor",
                              "0.0",
                              "--pad_to_max_length",
                              "True",
                              "--use_fast_tokenizer",
                              "True",
                              "--cache_dir",
                              "c",
                              "--model_revision",
                              "main",
                              "--overwrite_cache",
                              "--dataset_name",
                              "glue",
                              "--report_to",
                              "none",
                              "--max_grad_norm",
                              "1.0",
                              "--resume_from_checkpoint",
                              "o/step-00000500"});
  EXPECT_TRUE(o.trains() && o.evaluate && o.config().run.overwrite && o.rows.pad);
  EXPECT_EQ(o.config().batch.micro, 32);
  EXPECT_EQ(o.config().optim.learning_rate, 2e-5);
  EXPECT_EQ(o.config().checkpoint.resume, "o/step-00000500");
}

TEST(GlueFlags, BothSpellingsOfANameAreTheSame) {
  EXPECT_EQ(read({"--evaluation_strategy", "epoch"}).evaluation.strategy, Strategy::epoch);
  EXPECT_EQ(read({"--eval_strategy", "steps", "--eval-steps=20"}).evaluation.strategy, Strategy::steps);
  EXPECT_EQ(read({"--eval-strategy=epoch"}).evaluation.strategy, Strategy::epoch);
  EXPECT_EQ(read({"--max_val_samples", "7"}).rows.most_evaluation, 7);
  EXPECT_EQ(read({"--max_test_samples", "7"}).rows.most_prediction, 7);
  EXPECT_EQ(read({"--do_predict", "True"}).predict, true);
  EXPECT_EQ(read({"--do_predict", "no"}).predict, false);
  for (const char* name : {"SST-2", "sst2", "sst_2"}) EXPECT_EQ(read({}, name).rows.task, "sst2") << name;
}

TEST(GlueFlags, WarmupIsStepsOrAShareOfThem) {
  EXPECT_EQ(warmup_of(read({"--warmup_ratio", "0.1"}), 345), 35);
  EXPECT_EQ(warmup_of(read({"--warmup_steps", "0.1"}), 345), 35);
  EXPECT_EQ(warmup_of(read({"--warmup_steps", "20", "--warmup_ratio", "0.5"}), 345), 20);
  EXPECT_EQ(warmup_of(read({"--warmup_steps", "20", "--lr_scheduler_type", "constant"}), 345), 0);
}

TEST(GlueFlags, ArgumentsWithoutEffectTakeTheirValueAlong) {
  for (const Words& words : {Words{"--report_to", "tensorboard"},
                             {"--use_mps_device"},
                             {"--tf32", "True"},
                             {"--torch_compile=False"},
                             {"--ddp_timeout", "1800"},
                             {"--hub_model_id", "a/b"}}) {
    Words more = words;
    more.insert(more.end(), {"--seed", "7"});
    EXPECT_EQ(read(more).config().run.seed, 7) << words[0];
  }
}

TEST(GlueFlags, TheCpuIsTakenWhereItIsAskedFor) {
  EXPECT_EQ(read({}).config().run.device, DeviceChoice::automatic);
  for (const Words& words : {Words{"--use_cpu"}, {"--no_cuda"}, {"--no_cuda", "True"}, {"--run.device", "cpu"}})
    EXPECT_EQ(read(words).config().run.device, DeviceChoice::cpu) << words[0];
  EXPECT_EQ(read({"--run.device", "cuda"}).config().run.device, DeviceChoice::cuda);
}

TEST(GlueFlags, WhatWouldChangeNumbersIsRefusedWithWhatToUse) {
  const std::pair<Words, const char*> refused[] = {
      {{"--fp16_full_eval"}, "--fp16-full-eval True is not supported; instead: --fp16, which also evaluates in f16"},
      {{"--dataloader_drop_last", "True"}, "instead: every row of every epoch is used"},
      {{"--group_by_length"}, "instead: rows are packed without padding"},
      {{"--optim", "adafactor"}, "--optim adafactor is not supported; instead: AdamW"},
      {{"--data_seed", "3"}, "instead: --seed, which also gives the order of the rows"},
      {{"--deepspeed", "ds.json"}, "--deepspeed ds.json is not supported; instead: mpirun -n N trireme glue"},
      {{"--gradient_checkpointing"}, "instead: --model.recompute"},
      {{"--dataset_name", "imdb"}, "--dataset-name imdb is not supported; instead: --task-name with --data-dir"},
      {{"--save_safetensors", "False"}, "instead: model.safetensors"},
      {{"--neftune_noise_alpha", "5"}, "instead: no noise"},
      {{"--auto_find_batch_size"}, "instead: --per-device-train-batch-size"}};
  for (const auto& [words, text] : refused) EXPECT_ERROR(read(words), ErrorKind::config, text);
}

TEST(GlueFlags, TheBestModelAndEarlyStoppingAreAskedForAsInTransformers) {
  const GlueOptions best =
      read({"--eval_strategy", "epoch", "--load_best_model_at_end", "True", "--metric_for_best_model", "f1",
            "--greater_is_better", "False", "--early_stopping_patience", "3", "--early_stopping_threshold", "0.01"});
  EXPECT_TRUE(best.config().checkpoint.best);
  EXPECT_EQ(best.best_metric, "f1");
  EXPECT_EQ(best.greater_is_better, false);
  EXPECT_EQ(best.patience, 3);
  EXPECT_EQ(best.patience_threshold, 0.01);
  EXPECT_EQ(read({}).greater_is_better, std::nullopt);
  EXPECT_ERROR(read({"--load_best_model_at_end"}), ErrorKind::usage,
               "needs evaluations during training: add --eval-strategy");
  EXPECT_ERROR(read({"--early_stopping_patience", "2", "--eval_strategy", "epoch"}), ErrorKind::usage,
               "needs --load-best-model-at-end");
  EXPECT_ERROR(read({"--early_stopping_threshold", "2"}), ErrorKind::usage, "needs --early-stopping-patience");
}

TEST(GlueFlags, StepsBelowOneAreSharesAndSchedulesTakeTheirNumbers) {
  const GlueOptions shares = read({"--eval_steps", "0.5", "--save_steps", "0.25", "--logging_steps", "0.1"});
  EXPECT_EQ(interval_of(shares.evaluation.steps, 345), 173);  // transformers: ceil(345 x 0.5)
  EXPECT_EQ(interval_of(shares.saving.steps, 345), 87);
  EXPECT_EQ(interval_of(shares.logging.steps, 345), 35);
  EXPECT_EQ(interval_of(0.001, 10), 1);
  EXPECT_EQ(interval_of(500, 10), 500);
  EXPECT_ERROR(read({"--save_steps", "2.5"}), ErrorKind::usage,
               "--save-steps is 2.5, expected a whole number of steps");
  const GlueOptions restarts =
      read({"--lr_scheduler_type", "cosine_with_restarts", "--lr_scheduler_kwargs", "{\"num_cycles\": 3}"});
  EXPECT_EQ(config_of(restarts, 100, 8).optim.schedule, RateCourse::cosine_with_restarts);
  EXPECT_EQ(config_of(restarts, 100, 8).optim.restarts, 3);
  const GlueOptions polynomial =
      read({"--lr_scheduler_type", "polynomial", "--lr_scheduler_kwargs", "{\"power\": 2, \"lr_end\": 1e-6}"});
  EXPECT_EQ(config_of(polynomial, 100, 8).optim.decay_power, 2);
  EXPECT_EQ(config_of(polynomial, 100, 8).optim.min_learning_rate, 1e-6);
  EXPECT_EQ(config_of(read({"--lr_scheduler_type", "polynomial"}), 100, 8).optim.min_learning_rate, 1e-7);
  EXPECT_EQ(config_of(read({"--lr_scheduler_type", "inverse_sqrt"}), 100, 8).optim.schedule, RateCourse::inverse_sqrt);
  EXPECT_EQ(config_of(read({}), 100, 8).optim.min_learning_rate, 0);
  EXPECT_ERROR(read({"--lr_scheduler_kwargs", "{\"power\": 2}"}), ErrorKind::usage,
               "the schedule linear has no \"power\"");
  EXPECT_ERROR(read({"--lr_scheduler_type", "cosine_with_restarts", "--lr_scheduler_kwargs", "{\"num_cycles\": 0.5}"}),
               ErrorKind::usage, "expected a number of at least 1");
}

TEST(GlueFlags, SchedulesWithASmallestRateNeedTheirNumbers) {
  const auto optim = [](const std::string& type, const std::string& kwargs) {
    return config_of(read({"--learning_rate", "1e-4", "--lr_scheduler_type", type, "--lr_scheduler_kwargs", kwargs}),
                     100, 8)
        .optim;
  };
  const OptimOptions cosine = optim("cosine_with_min_lr", R"({"min_lr": 2e-6})");
  EXPECT_EQ(cosine.schedule, RateCourse::cosine);
  EXPECT_EQ(cosine.min_learning_rate, 2e-6);
  EXPECT_DOUBLE_EQ(optim("cosine_with_min_lr", R"({"min_lr_rate": 0.1})").min_learning_rate, 1e-5);
  const OptimOptions stable =
      optim("warmup_stable_decay", R"({"num_decay_steps": 30, "decay_type": "1-sqrt", "min_lr_ratio": 0.2})");
  EXPECT_EQ(stable.schedule, RateCourse::stable_decay);
  EXPECT_EQ(stable.decay_length, 30);
  EXPECT_EQ(stable.decay_shape, DecayShape::sqrt);
  EXPECT_DOUBLE_EQ(stable.min_learning_rate, 2e-5);
  EXPECT_EQ(optim("warmup_stable_decay", R"({"num_decay_steps": 30})").decay_shape, DecayShape::cosine);
  for (const char* kwargs : {"", R"({"min_lr": 1e-6, "min_lr_rate": 0.1})"})
    EXPECT_ERROR(optim("cosine_with_min_lr", kwargs), ErrorKind::usage,
                 R"(cosine_with_min_lr needs its smallest rate: --lr-scheduler-kwargs '{"min_lr": 1e-6}' or)");
  EXPECT_ERROR(optim("warmup_stable_decay", ""), ErrorKind::usage, "needs the length of its decay");
  EXPECT_ERROR(optim("warmup_stable_decay", R"({"num_decay_steps": 2.5})"), ErrorKind::usage,
               R"("num_decay_steps" is 2.5, expected a whole number of steps)");
  EXPECT_ERROR(optim("warmup_stable_decay", R"({"num_decay_steps": 3, "decay_type": "step"})"), ErrorKind::usage,
               R"("decay_type" is "step", expected cosine, linear or 1-sqrt)");
  EXPECT_ERROR(optim("warmup_stable_decay", R"({"num_decay_steps": 3, "num_stable_steps": 9})"), ErrorKind::usage,
               R"(the schedule warmup_stable_decay has no "num_stable_steps" here)");
  EXPECT_ERROR(optim("cosine_with_min_lr", R"({"min_lr": 1})"), ErrorKind::usage,
               "the smallest rate is 1, expected less than --learning-rate 0.0001");
}

TEST(GlueFlags, CheckpointsOfTheBestNeedEvaluations) {
  EXPECT_ERROR(read({"--do_train", "--save_strategy", "best"}), ErrorKind::usage,
               "--save-strategy best needs evaluations during training");
  EXPECT_EQ(read({"--do_train", "--save_strategy", "best", "--eval_strategy", "epoch"}).saving.strategy,
            Strategy::best);
  EXPECT_ERROR(read({"--do_train", "--eval_strategy", "best"}), ErrorKind::usage, "best");
}

TEST(GlueFlags, ColumnsAreForTheUsersOwnFiles) {
  EXPECT_ERROR(read({"--text_columns", "a"}), ErrorKind::usage, "are for your own files");
  EXPECT_ERROR(read({"--csv_separator", "semicolon"}), ErrorKind::usage, "are for your own files");
}

TEST(GlueFlags, WrongValuesAndUnknownNamesAreErrors) {
  EXPECT_ERROR(read({"--overwrite_output", "True"}), ErrorKind::usage, "overwrite");
  EXPECT_ERROR(read({"--lr_scheduler_type", "reduce_lr_on_plateau"}), ErrorKind::usage, "reduce_lr_on_plateau");
  EXPECT_ERROR(read({"--eval_strategy", "sometimes"}), ErrorKind::usage, "sometimes");
  EXPECT_ERROR(read({"--per_device_train_batch_size", "0"}), ErrorKind::usage, "per");
  EXPECT_ERROR(read({"--adam_beta2", "1"}), ErrorKind::usage, "--adam-beta1 and --adam-beta2 must be below 1");
  EXPECT_ERROR(read({"--adam_epsilon", "0"}), ErrorKind::usage,
               "--adam-epsilon: 0 given, expected a number from 1e-30 to 1");
  EXPECT_ERROR(read({"--test_file", "rows.csv"}), ErrorKind::usage,
               "--task-name mrpc has its own files: remove it, or ");
  EXPECT_ERROR(read({"--max_steps", "0"}), ErrorKind::usage, "--max-steps is 0; give a number of steps");
  EXPECT_ERROR(read({"--per_device_max_tokens", "64", "--pad_to_max_length"}), ErrorKind::usage,
               "--per-device-max-tokens counts ids without padding; remove --pad-to-max-length");
  EXPECT_ERROR(read({"--resume_from_checkpoint", "False"}), ErrorKind::config, "use --overwrite-output-dir");
  EXPECT_ERROR(read({}, "squad"), ErrorKind::usage, "\"squad\" is not a GLUE task");
  EXPECT_ERROR(read({"--optim.clip", "2"}), ErrorKind::usage,
               "\"--optim.clip\" cannot be given to glue: run_glue's arguments determine it; use --max-grad-norm");
  EXPECT_ERROR(read({"--optim.decay-all", "true"}), ErrorKind::usage, "; `trireme glue --help` lists them");
  EXPECT_ERROR(read_glue_flags({"--do_train"}), ErrorKind::usage, "--model-name-or-path is missing");
  EXPECT_ERROR(read_glue_flags({"--model", "m", "--do_train"}), ErrorKind::usage, "--output-dir is missing");
  EXPECT_ERROR(read_glue_flags({"--model", "m", "--do_train", "--output_dir", "o"}), ErrorKind::usage,
               "--task-name is missing, and --train-file and --validation-file are also missing");
}

TEST(GlueFlags, HelpShowsWhatIsOnAndOffByDefault) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_glue({"--help"}), 0);
  const std::string help = testing::internal::GetCapturedStdout();
  EXPECT_NE(help.find("--bf16 [True|False]=False"), std::string::npos) << help;
  EXPECT_EQ(help.find("TEXT=True"), std::string::npos);
  EXPECT_NE(help.find("--fp16-full-eval           --fp16, which also"), std::string::npos)
      << "what is refused, and instead";
  EXPECT_EQ(read({"--bf16"}).config().precision.dtype, DType::bf16);
  EXPECT_EQ(read({"--bf16", "False"}).config().precision.dtype, DType::f32);
  EXPECT_EQ(read({"--fp16", "False"}).config().precision.dtype, DType::f32);
  EXPECT_ERROR(read({"--fp16", "--bf16"}), ErrorKind::usage, "--bf16 and --fp16 are both given; remove one");
  EXPECT_ERROR(read({"--fp16", "--use_cpu"}), ErrorKind::config,
               "precision.dtype (flag --fp16) is f16, which is unsupported for training on CPUs; set --bf16");
}

TEST(GlueFlags, AcceptsOlderSpellingsAndOptionsOfTheTokenizer) {
  const GlueOptions o =
      read_glue_flags({"--model", "m", "--task", "rte", "--output_dir", "o", "--do_train", "--per_gpu_train_batch_size",
                       "4", "--per_gpu_eval_batch_size=2", "--lower_case", "off"});
  EXPECT_EQ(o.config().batch.micro, 4);
  EXPECT_EQ(o.evaluation_batch, 2);
  EXPECT_EQ(o.tokenizer_load.lower_case, TokenizerLoadOptions::LowerCase::off);
}

TEST(GlueFlags, OneJsonFileHoldsThemAll) {
  TemporaryFolder folder;
  const std::string path = folder / "run.json";
  write_text(path, Json{{"model_name_or_path", "m"},
                        {"task_name", "rte"},
                        {"output_dir", "o"},
                        {"do_train", true},
                        {"fp16", false},
                        {"num_train_epochs", 2.5},
                        {"cache_dir", nullptr},
                        {"report_to", "none"}}
                       .dump());
  const GlueOptions o = read_glue_flags({path});
  EXPECT_EQ(o.rows.task, "rte");
  EXPECT_EQ(o.epochs, 2.5);
  write_text(path, "[1]");
  EXPECT_ERROR(read_glue_flags({path}), ErrorKind::config, "expected an object of arguments");
  write_text(path, R"({"label_names": ["a"]})");
  EXPECT_ERROR(read_glue_flags({path}), ErrorKind::config, "\"label_names\" is array, expected text, a number or true");
}

}  // namespace
}  // namespace trireme
