#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "config/dialect.h"
#include "config/load.h"
#include "config/validate.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::Contains;
using testing::HasSubstr;

LoadedConfig flags(const std::vector<std::string>& words) { return load_config({}, words, "nanogpt"); }

TEST(Nanogpt, ClassifiesEveryKey) {
  const std::vector<std::pair<KeyRole, std::vector<const char*>>> expected = {
      {KeyRole::mapped,
       {"out_dir",      "eval_interval", "log_interval", "eval_iters",     "eval_only",  "always_save_checkpoint",
        "init_from",    "seed",          "dataset",      "batch_size",     "block_size", "gradient_accumulation_steps",
        "n_layer",      "n_head",        "n_embd",       "dropout",        "bias",       "learning_rate",
        "max_iters",    "weight_decay",  "beta1",        "beta2",          "grad_clip",  "decay_lr",
        "warmup_iters", "min_lr",        "device",       "lr_decay_iters", "dtype",      "pretrained_dir"}},
      {KeyRole::no_effect,
       {"wandb_log", "wandb_project", "wandb_entity", "wandb_run_name", "backend", "compile", "compile_model"}},
      {KeyRole::refused,
       {"start", "num_samples", "max_new_tokens", "temperature", "top_k", "betas", "real_data", "profile"}},
  };
  size_t count = 0;
  for (const auto& [role, names] : expected) {
    for (const char* name : names) {
      const DialectKey* key = kNanogpt.find(name);
      ASSERT_NE(key, nullptr) << name;
      EXPECT_EQ(key->role, role) << name;
      ++count;
    }
  }
  EXPECT_EQ(count, kNanogpt.keys.size());
}

TEST(Nanogpt, HasNanogptsDefaults) {
  const LoadedConfig loaded = flags({});
  const Config& config = loaded.config;
  EXPECT_EQ(config.run.dir, "out");
  EXPECT_EQ(config.data.dir, "data/openwebtext");
  EXPECT_EQ(config.batch.global, 480);
  EXPECT_EQ(config.batch.micro, 12);
  EXPECT_EQ(config.batch.sequence, 1024);
  EXPECT_EQ(config.model.init, "scratch");
  EXPECT_EQ(config.model.layers, 12);
  EXPECT_EQ(config.model.context, 1024);
  EXPECT_FALSE(config.model.bias);
  EXPECT_EQ(config.model.dropout, 0);
  EXPECT_EQ(config.model.activation, Activation::gelu_erf);
  EXPECT_EQ(config.optim.warmup_steps, 2000);
  EXPECT_EQ(config.optim.decay_steps, 600000);
  EXPECT_EQ(config.run.steps, 600000);
  EXPECT_EQ(config.evaluation.every, 2000);
  EXPECT_EQ(config.evaluation.batches, 5) << "200 x 12 sequences in batches of 480";
  EXPECT_EQ(config.checkpoint.every, 2000);
  EXPECT_EQ(config.checkpoint.resume, "none");
  EXPECT_EQ(config.precision.dtype, DType::f32);
  EXPECT_EQ(config.log.every, 1);
  EXPECT_FALSE(loaded.given("model.layers")) << "a default of the dialect is no wish of the user";
  EXPECT_THAT(loaded.notes, Contains(HasSubstr("device is not given: using a GPU if one can be used, else the CPU")));
}

TEST(Nanogpt, PassesEveryKeyOn) {
  const Config config = flags({"--out_dir=o",         "--eval_interval=7",
                               "--log_interval=3",    "--eval_iters=9",
                               "--eval_only=True",    "--always_save_checkpoint=False",
                               "--dataset=d",         "--gradient_accumulation_steps=4",
                               "--batch_size=6",      "--block_size=64",
                               "--n_layer=3",         "--n_head=5",
                               "--n_embd=40",         "--dropout=0.25",
                               "--bias=True",         "--learning_rate=1e-2",
                               "--max_iters=11",      "--weight_decay=0.3",
                               "--beta1=0.7",         "--beta2=0.8",
                               "--grad_clip=0.0",     "--warmup_iters=1",
                               "--lr_decay_iters=10", "--min_lr=1e-3",
                               "--device=cpu",        "--dtype=bfloat16",
                               "--wandb_log=False"})
                            .config;
  EXPECT_EQ(config.run.dir, "o");
  EXPECT_EQ(config.evaluation.every, 7);
  EXPECT_EQ(config.log.every, 3);
  EXPECT_EQ(config.evaluation.batches, 3) << "9 x 6 sequences in batches of 24";
  EXPECT_TRUE(config.evaluation.only);
  EXPECT_EQ(config.checkpoint.every, 0);
  EXPECT_TRUE(config.checkpoint.best);
  EXPECT_EQ(config.data.dir, "data/d");
  EXPECT_EQ(config.batch.global, 24);
  EXPECT_EQ(config.batch.micro, 6);
  EXPECT_EQ(config.batch.sequence, 64);
  EXPECT_EQ(config.model.context, 64);
  EXPECT_EQ(config.model.layers, 3);
  EXPECT_EQ(config.model.heads, 5);
  EXPECT_EQ(config.model.width, 40);
  EXPECT_EQ(config.model.dropout, 0.25);
  EXPECT_TRUE(config.model.bias);
  EXPECT_EQ(config.optim.learning_rate, 1e-2);
  EXPECT_EQ(config.run.steps, 11);
  EXPECT_EQ(config.optim.weight_decay, 0.3);
  EXPECT_EQ(config.optim.beta1, 0.7);
  EXPECT_EQ(config.optim.beta2, 0.8);
  EXPECT_EQ(config.optim.clip, 0);
  EXPECT_EQ(config.optim.warmup_steps, 1);
  EXPECT_EQ(config.optim.decay_steps, 10);
  EXPECT_EQ(config.optim.min_learning_rate, 1e-3);
  EXPECT_EQ(config.precision.dtype, DType::bf16);
}

TEST(Nanogpt, ReadsConfigurationFilesThenFlags) {
  const TemporaryFolder folder;
  write_text(
      folder / "ft.py",
      "import time\nwandb_run_name = 'ft-' + str(time.time())\nbatch_size = 1\n"
      "gradient_accumulation_steps = 4 * 8\nmax_iters = 20\nlr_decay_iters = max_iters\nmin_lr = learning_rate / 10\n");
  const LoadedConfig loaded = load_config({folder / "ft.py"}, {"--max_iters=30", "--compile=False", "--run.seed=5"});
  EXPECT_EQ(loaded.dialect, "nanogpt");
  EXPECT_EQ(loaded.config.batch.global, 32);
  EXPECT_EQ(loaded.config.run.steps, 30);
  EXPECT_EQ(loaded.config.run.seed, 5);
  EXPECT_EQ(loaded.config.optim.decay_steps, 20);
  EXPECT_DOUBLE_EQ(loaded.config.optim.min_learning_rate, 6e-5);
  EXPECT_THAT(loaded.notes, Contains(HasSubstr("ft.py:2: wandb_run_name has no effect here")));
  EXPECT_THAT(loaded.notes, Contains(HasSubstr("--compile has no effect here")));
}

TEST(Nanogpt, RunsTheCharacterRecipeOnACpu) {
  const TemporaryFolder folder;
  write_text(
      folder / "train_shakespeare_char.py",
      "out_dir = 'out-shakespeare-char'\neval_interval = 250\neval_iters = 200\nlog_interval = 10\n"
      "always_save_checkpoint = False\nwandb_log = False\nwandb_project = 'shakespeare-char'\n"
      "wandb_run_name = 'mini-gpt'\ndataset = 'shakespeare_char'\ngradient_accumulation_steps = 1\nbatch_size = 64\n"
      "block_size = 256\nn_layer = 6\nn_head = 6\nn_embd = 384\ndropout = 0.2\nlearning_rate = 1e-3\n"
      "max_iters = 5000\nlr_decay_iters = 5000\nmin_lr = 1e-4\nbeta2 = 0.99\nwarmup_iters = 100\n");
  const LoadedConfig loaded = load_config(
      {folder / "train_shakespeare_char.py"},
      {"--device=cpu", "--compile=False", "--eval_iters=20", "--log_interval=1", "--block_size=64", "--batch_size=12",
       "--n_layer=4", "--n_head=4", "--n_embd=128", "--max_iters=2000", "--lr_decay_iters=2000", "--dropout=0.0"});
  EXPECT_EQ(loaded.config.run.steps, 2000);
  EXPECT_EQ(loaded.config.model.width, 128);
  EXPECT_EQ(loaded.config.model.dropout, 0);
  EXPECT_EQ(plan_batch(loaded, 1).accumulation, 1);
  EXPECT_ERROR(plan_batch(loaded, 2), ErrorKind::config, "set --batch.micro to one of 1, 2, 3, 6");
}

TEST(Nanogpt, KeepsTheRateConstantWithoutDecay) {
  const Config config = flags({"--decay_lr=False", "--learning_rate=3e-5"}).config;
  EXPECT_EQ(config.optim.schedule, RateCourse::constant);
  EXPECT_EQ(config.optim.warmup_steps, 0);
}

TEST(Nanogpt, ResumesFromItsFolder) {
  const LoadedConfig loaded = flags({"--init_from=resume", "--out_dir=o"});
  EXPECT_EQ(loaded.config.checkpoint.resume, "o");
  EXPECT_EQ(loaded.origins.count("model.layers"), 0u) << "the checkpoint knows its model";
  EXPECT_EQ(loaded.origins.count("model.init"), 0u);
}

TEST(Nanogpt, AResumedRunKeepsItsBatchUnlessBothNumbersAreGiven) {
  const auto given = [](std::vector<std::string> words) {
    words.insert(words.begin(), "--out_dir=o");
    return flags(words).given("batch.global");
  };
  EXPECT_FALSE(given({"--init_from=resume"}));
  EXPECT_FALSE(given({"--init_from=resume", "--batch_size=3"}));
  EXPECT_FALSE(given({"--init_from=resume", "--gradient_accumulation_steps=3"}));
  EXPECT_TRUE(given({"--init_from=resume", "--batch_size=3", "--gradient_accumulation_steps=3"}));
  EXPECT_TRUE(given({"--batch_size=3"}));
}

TEST(Nanogpt, StartsFromGpt2InALocalFolderAndCropsIt) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "gpt2-xl");
  write_text(folder / "gpt2-xl/config.json", "{}");
  const LoadedConfig loaded =
      flags({"--init_from=gpt2-xl", "--pretrained_dir=" + folder.path(), "--block_size=256", "--dropout=0.1"});
  EXPECT_EQ(loaded.config.model.init, folder / "gpt2-xl");
  EXPECT_EQ(loaded.config.model.context, 256);
  EXPECT_EQ(loaded.config.batch.sequence, 256);
  EXPECT_EQ(loaded.config.model.dropout, 0.1);
  EXPECT_EQ(loaded.origins.count("model.layers"), 0u) << "the folder says what the model is";
  EXPECT_ERROR(
      flags({"--init_from=gpt2", "--pretrained_dir=" + folder.path()}), ErrorKind::config,
      "gpt2/config.json does not exist; put config.json and model.safetensors of gpt2 there, set --pretrained_dir to "
      "the folder above it, or remove --pretrained_dir to fetch gpt2 from the Hugging Face hub");
  EXPECT_EQ(flags({"--init_from=gpt2-xl"}).config.model.init, "models/gpt2-xl");  // a name of the hub
  EXPECT_EQ(flags({"--init_from=gpt2", "--model.init=elsewhere"}).config.model.init, "elsewhere");
  EXPECT_ERROR(flags({"--init_from=gpt3"}), ErrorKind::config,
               "--init_from is \"gpt3\": expected scratch, resume, gpt2, gpt2-medium, gpt2-large or gpt2-xl");
}

TEST(Nanogpt, Float16OnAGpuScalesTheLossAsTorchDoes) {
  for (const auto& given : {flags({"--dtype=float16"}), flags({"--dtype=float16", "--device=cuda"})}) {
    const PrecisionOptions& precision = given.config.precision;
    EXPECT_EQ(precision.dtype, DType::f16);
    EXPECT_EQ(precision.loss_scale_window, 2000);
    EXPECT_EQ(precision.loss_scale_hysteresis, 1);
    EXPECT_LT(precision.loss_scale_min, 1e-7);
  }
}

TEST(Nanogpt, RefusesWhatCannotBeHonoured) {
  EXPECT_EQ(flags({"--device=cuda"}).config.run.device, DeviceChoice::cuda);
  EXPECT_EQ(flags({"--device=cuda:0"}).config.run.device, DeviceChoice::cuda);
  EXPECT_EQ(flags({"--device=cpu"}).config.run.device, DeviceChoice::cpu);
  EXPECT_EQ(flags({}).config.run.device, DeviceChoice::automatic);
  EXPECT_ERROR(flags({"--device=mps"}), ErrorKind::config, "--device is \"mps\": expected cpu, cuda or cuda:0");
  EXPECT_ERROR(flags({"--device=cpu", "--dtype=float16"}), ErrorKind::config,
               "--dtype is \"float16\": training in float16 is not supported on CPUs");
  EXPECT_ERROR(flags({"--dtype=int8"}), ErrorKind::config, "expected float32, bfloat16 or float16");
  EXPECT_ERROR(flags({"--start=x"}), ErrorKind::config,
               "--start cannot be used here: it belongs to sampling: `trireme sample --model RUN --start TEXT`");
  EXPECT_ERROR(flags({"--profile=True"}), ErrorKind::config,
               "--profile cannot be used here: it belongs to benchmarks: `trireme bench step`");
  for (const char* key :
       {"batch_size", "gradient_accumulation_steps", "eval_iters", "eval_interval", "lr_decay_iters"}) {
    EXPECT_ERROR(flags({std::string("--") + key + "=0"}), ErrorKind::config,
                 std::string("--") + key + " is 0: the smallest possible value is 1");
  }
}

TEST(Nanogpt, ReportsAllProblemsTogether) {
  EXPECT_ERROR(
      flags({"--device=mps", "--dtype=int8", "--batch_size=0", "--eval_iters=0", "--init_from=bert"}),
      ErrorKind::config,
      "5 settings cannot be used here:\n  --init_from is \"bert\": expected scratch, resume, gpt2, gpt2-medium, "
      "gpt2-large or gpt2-xl\n  --device is \"mps\": expected cpu, cuda or cuda:0\n  --dtype is \"int8\": "
      "expected float32, bfloat16 or float16\n  --eval_iters is 0: the smallest possible value is 1\n  "
      "--batch_size is 0: the smallest possible value is 1");
  EXPECT_ERROR(flags({"--n_layer=x", "--dtype=int8", "--dropout=7"}), ErrorKind::config,
               "3 settings cannot be used here:\n  --n_layer is \"x\", expected a whole number\n  --dtype is \"int8\": "
               "expected float32, bfloat16 or float16\n  --dropout is 7");
}

TEST(Nanogpt, RefusesUnknownKeysAndWrongTypes) {
  const TemporaryFolder folder;
  write_text(folder / "a.py", "n_layer = 4\nn_heads = 4\n");
  EXPECT_ERROR(load_config({folder / "a.py"}, {}), ErrorKind::config,
               "a.py:2: dialect nanogpt has no key \"n_heads\"; did you mean \"n_head\"?");
  EXPECT_ERROR(flags({"--n_heads=4"}), ErrorKind::config,
               "flag --n_heads: unknown option \"n_heads\"; did you mean \"n_head\"?");
  EXPECT_ERROR(flags({"--batch_size=1.5"}), ErrorKind::config, "--batch_size is 1.5, expected a whole number");
  EXPECT_ERROR(flags({"--batch_size=many"}), ErrorKind::config, "--batch_size is \"many\", expected a whole number");
  EXPECT_ERROR(flags({"--bias=1"}), ErrorKind::config, "--bias is 1, expected True or False");
  EXPECT_ERROR(flags({"--out_dir=5"}), ErrorKind::config, "--out_dir is 5, expected text");
  EXPECT_ERROR(flags({"--dropout=half"}), ErrorKind::config, "--dropout is \"half\", expected a number");
  EXPECT_EQ(flags({"--learning_rate=1"}).config.optim.learning_rate, 1) << "whole numbers are numbers too";
  write_text(folder / "b.py", "batch_size = int(time.time())\n");
  EXPECT_ERROR(
      load_config({folder / "b.py"}, {}), ErrorKind::config,
      "b.py:1: batch_size is `int(time.time())`, which is not known without executing code, expected a whole number");
  write_text(folder / "c.py", "betas = (0.9, 0.95)\n");
  EXPECT_ERROR(load_config({folder / "c.py"}, {}), ErrorKind::config,
               "c.py:1: betas cannot be used here: set beta1 and beta2");
}

TEST(Nanogpt, AFileMayAssignWhatMeansNothingToTraining) {
  const TemporaryFolder folder;
  write_text(folder / "a.py",
             "name = 'corpus'\ndataset = f'{name}'\nallow_tf32 = False\ndevice_type = 'cpu'\nseed = 7\n"
             "start = 'x'\ntemperature = 0.8\nwandb_log = True\nmax_lr = 3\n");
  const LoadedConfig loaded = load_config({folder / "a.py"}, {});
  EXPECT_EQ(loaded.config.data.dir, "data/corpus");
  EXPECT_EQ(loaded.config.run.seed, 7);
  EXPECT_THAT(loaded.notes, Contains(HasSubstr("a.py:3: allow_tf32 is not a key of nanogpt: it has no effect")));
  EXPECT_THAT(loaded.notes, Contains(HasSubstr("a.py:4: device_type is not a key of nanogpt")));
  EXPECT_THAT(loaded.notes, Contains(HasSubstr("a.py:6: start has no effect here: it belongs to sampling")));
  EXPECT_THAT(loaded.notes, Contains(HasSubstr("a.py:7: temperature has no effect here: it belongs to sampling")));
  EXPECT_THAT(loaded.notes,
              Contains(HasSubstr("a.py:8: wandb_log has no effect here: nothing is sent to wandb; metrics "
                                 "are in RUN/metrics.jsonl and RUN/tensorboard")));
  EXPECT_THAT(loaded.notes, Contains(HasSubstr("a.py:9: max_lr is not a key"))) << "min_lr means something else";
  EXPECT_THAT(loaded.notes, testing::Not(Contains(HasSubstr("name is not a key")))) << "a variable of the file";
  for (const char* slip : {"n_layers = 4", "max_iter = 4", "learning_rat = 0.1", "batchsize = 3", "warmup_iter = 2"}) {
    write_text(folder / "b.py", std::string(slip) + "\n");
    EXPECT_ERROR(load_config({folder / "b.py"}, {}), ErrorKind::config, "did you mean");
  }
}

TEST(Nanogpt, FollowsAStarImport) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "config");
  write_text(folder / "config/base.py", "batch_size = 4\nmax_iters = 77\ndropout = 0.25\n");
  write_text(folder / "star.py", "from config.base import *\nout_dir = 'x'\n");
  const LoadedConfig loaded = load_config({folder / "star.py"}, {});
  EXPECT_EQ(loaded.config.run.steps, 77);
  EXPECT_EQ(loaded.config.batch.micro, 4);
  EXPECT_EQ(loaded.config.model.dropout, 0.25);
  EXPECT_EQ(loaded.config.run.dir, "x");
}

TEST(Nanogpt, NamesTheOptionsRangeAtTheKeysPlace) {
  EXPECT_ERROR(flags({"--dropout=1.5"}), ErrorKind::config, "--dropout is 1.5, expected a number from 0 to 0.999");
}

}  // namespace
}  // namespace trireme
