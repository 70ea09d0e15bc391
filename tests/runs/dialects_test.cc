// Runs from the files and flags of other programs.

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/json.h"
#include "checkpoint/checkpoint_folder.h"
#include "tests/runs/training_fixture.h"
#include "tests/support/paths.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class Dialects : public TrainingFixture {
 protected:
  Dialects() {
    std::filesystem::create_directory(path("data"));
    std::filesystem::create_directory_symlink(path("."), path("data/tokens"));
  }
  /// A Hugging Face folder of the fixture's model after one step.
  void make_pretrained(const std::string& name) {
    done(run(trireme_command(train("scratch", {"--run.steps", "1"}))));
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    done(run(trireme_command({"export", "--checkpoint", path("scratch"), "--output", path(name)})));
  }
  Outcome done(const Outcome& outcome) const {
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome;
  }
  /// The program in the fixture's folder: dialects name their files relative to where they are started.
  Outcome here(int ranks, const std::string& arguments) const {
    const std::string launch = ranks > 1 ? fmt::format("{} -n {} ", mpirun_path(), ranks) : "";
    const char* more = arguments.starts_with("train ") ? " --log.peak-tflops 1" : "";
    return run(
        {"sh", "-c", fmt::format("cd {} && exec {}{} {}{}", path("."), launch, trireme_path(), arguments, more)});
  }
  int64_t global_batch(const std::string& run) const {
    return static_cast<int64_t>(progress(run).samples) / progress(run).step;
  }
};

class IntelNanogpt : public Dialects {
 protected:
  IntelNanogpt() {
    make_pretrained("models/gpt2");
    write_text(path("intel.yaml"), yaml("bf16"));
  }
  /// Every key of the guide's file, with the sizes of the fixture's model.
  static std::string yaml(const std::string& precision) {
    return R"(data_dir: .
block_size: 16
optimizer_config:
  learning_rate: 6e-4
  weight_decay: 0.1
  beta1: 0.9
  beta2: 0.95
trainer_config:
  device: cpu
  mixed_precision: )" +
           precision + R"( # fp32 or bf16 or fp16
  eval_interval: 2
  log_interval: 1
  eval_iters: 2
  eval_only: False
  batch_size: 2
  max_iters: 4
  model_path: ckpt.pt
  snapshot_path: snapshot.pt
  gradient_accumulation_steps: 3
  grad_clip: 1.0
  decay_lr: True
  warmup_iters: 2
  lr_decay_iters: 10
  max_lr: 6e-4
  min_lr: 6e-5
)";
  }
};

TEST_F(IntelNanogpt, MakesMaxItersStepsAndLeavesTorchFilesAlone) {
  write_text(path("snapshot.pt"), "torch");
  write_text(path("ckpt.pt"), "torch too");
  const Outcome outcome = done(here(1, "train intel.yaml --model.init models/gpt2"));
  EXPECT_THAT(outcome.output,
              HasSubstr("snapshot.pt is a torch file, which is neither read nor overwritten; using snapshot instead"));
  EXPECT_THAT(outcome.output, HasSubstr("starting from the weights of models/gpt2"));
  EXPECT_THAT(outcome.output, HasSubstr("bf16"));
  EXPECT_EQ(progress("snapshot").step, 4);
  EXPECT_EQ(global_batch("snapshot"), 2 * 3);
  EXPECT_EQ(read_text(path("snapshot.pt")), "torch");
  EXPECT_EQ(read_text(path("ckpt.pt")), "torch too");
  EXPECT_EQ(open_checkpoint(path("ckpt")).facts.progress.step, progress("snapshot").best_step) << "ckpt links the best";
}

TEST_F(IntelNanogpt, KeepsTheGlobalBatchOfTheFirstStartOnAnotherNumberOfRanks) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  done(here(2, "train intel.yaml --model.init models/gpt2"));
  EXPECT_EQ(global_batch("snapshot"), 2 * 3 * 2);
  const Outcome resumed = done(here(1, "train intel.yaml --model.init models/gpt2 trainer_config.max_iters=6"));
  EXPECT_THAT(resumed.output, HasSubstr("RESUMING from snapshot/step-00000004"));
  EXPECT_EQ(progress("snapshot").step, 6);
  EXPECT_EQ(global_batch("snapshot"), 2 * 3 * 2);
}

TEST_F(IntelNanogpt, AnotherBatchOrBlockSizeIsRefusedOnResumeUnlessAllowed) {
  done(here(1, "train intel.yaml --model.init models/gpt2"));
  const std::string more = "train intel.yaml --model.init models/gpt2 trainer_config.max_iters=6 ";
  for (const char* key : {"trainer_config.batch_size=4", "trainer_config.gradient_accumulation_steps=6"}) {
    const Outcome refused = here(1, more + key);
    EXPECT_EQ(refused.code, 2) << refused.output;
    EXPECT_THAT(refused.output, ContainsRegex(fmt::format("batch.per-rank \\(flag {}\\) +6 +12 +"
                                                          "--checkpoint.allow-other-batch",
                                                          std::string(key).substr(0, std::string(key).find('=')))));
  }
  write_text(path("other.yaml"), std::regex_replace(yaml("bf16"), std::regex("block_size: 16"), "block_size: 8"));
  const Outcome length = here(1, "train other.yaml --model.init models/gpt2");
  EXPECT_EQ(length.code, 2) << length.output;
  EXPECT_THAT(length.output, ContainsRegex("batch.sequence \\(other.yaml:2\\) +16 +8 +"));
  EXPECT_EQ(progress("snapshot").step, 4);
  const Outcome allowed = done(here(1, more + "trainer_config.batch_size=4 --checkpoint.allow-other-batch"));
  EXPECT_THAT(allowed.output, HasSubstr("changes with this start from 6 to 12"));
  EXPECT_EQ(progress("snapshot").samples, 4u * 6 + 2 * 12);
  // 3 x 4 sequences by other words is the same batch.
  done(here(1, "train intel.yaml --model.init models/gpt2 trainer_config.max_iters=7 trainer_config.batch_size=4"));
}

TEST_F(IntelNanogpt, AnotherModelToFineTuneIsRefusedOnResume) {
  done(here(1, "train intel.yaml --model.init models/gpt2"));
  done(run(trireme_command(train("wide", {"--run.steps", "1", "--model.width", "64"}))));
  const Outcome refused = here(1, "train intel.yaml --model.init wide");
  EXPECT_EQ(refused.code, 2) << refused.output;
  EXPECT_THAT(refused.output, ContainsRegex("model.width +32 +64 +impossible: another model"));
  std::filesystem::copy(path("models/gpt2"), path("moved"));
  const Outcome moved = done(here(1, "train intel.yaml --model.init moved trainer_config.max_iters=5"));
  EXPECT_THAT(moved.output, HasSubstr("model.init is moved now and was \"models/gpt2\": ignored"));
}

TEST_F(IntelNanogpt, ABestModelThatNeverAppearsIsExplained) {
  const Outcome outcome = done(here(1,
                                    "train intel.yaml --model.init models/gpt2 trainer_config.max_lr=0.9 "
                                    "trainer_config.min_lr=0.9 trainer_config.warmup_iters=0"));
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(path("ckpt"))));
  EXPECT_THAT(outcome.output, ContainsRegex("there is no best snapshot, so ckpt was not made: no evaluation was better "
                                            "than the validation loss [0-9.]+ from before the first step; the newest "
                                            "is snapshot/step-00000004"));
}

TEST_F(IntelNanogpt, ALinkToTheBestModelThatIsMissingIsMadeAgain) {
  done(here(1, "train intel.yaml --model.init models/gpt2"));
  std::filesystem::remove(path("ckpt"));
  done(here(1, "train intel.yaml --model.init models/gpt2 trainer_config.max_iters=5"));
  EXPECT_EQ(open_checkpoint(path("ckpt")).facts.progress.step, progress("snapshot").best_step);
}

TEST_F(IntelNanogpt, AsksForTheWeightsAndRefusesFp16) {
  const Outcome mute = here(1, "train intel.yaml");
  EXPECT_EQ(mute.code, 2);
  EXPECT_THAT(mute.output, HasSubstr("does not say which weights to fine-tune: add --model.init DIR"));
  write_text(path("fp16.yaml"), yaml("fp16"));
  const Outcome fp16 = here(1, "train fp16.yaml --model.init models/gpt2");
  EXPECT_EQ(fp16.code, 2);
  EXPECT_THAT(fp16.output, HasSubstr("fp16.yaml:10"));
  EXPECT_THAT(fp16.output, HasSubstr("set bf16 or fp32"));
}

class Nanogpt : public Dialects {
 protected:
  Nanogpt() {
    write_text(path("small.py"), R"(# a small character model
out_dir = 'out'
eval_interval = 2 # keep frequent
eval_iters = 2
log_interval = 1
always_save_checkpoint = False
wandb_log = False
dataset = 'tokens'
gradient_accumulation_steps = 1
batch_size = 2 * 6
block_size = 16
n_layer = 2
n_head = 2
n_embd = 32
dropout = 0.2
learning_rate = 1e-3
max_iters = 4
lr_decay_iters = max_iters
min_lr = 1e-4
beta2 = 0.99
warmup_iters = 1
device = 'cpu'
compile = False
)");
  }
  static constexpr const char* kVocabulary = " --model.vocabulary 31";
};

TEST_F(Nanogpt, TrainsFromAPythonFileAndFlagsAndResumes) {
  const Outcome first = done(here(1, std::string("train --dialect nanogpt small.py --max_iters=3") + kVocabulary));
  EXPECT_THAT(first.output, HasSubstr("starting from scratch"));
  const Spec spec = open_checkpoint(path("out")).facts.spec;
  EXPECT_FALSE(spec.biases.qkv || spec.biases.norm || spec.biases.mlp_out) << "nanoGPT's default is bias False";
  EXPECT_EQ(spec.activation, Activation::gelu_erf);
  EXPECT_FLOAT_EQ(spec.residual_dropout, 0.2f);
  EXPECT_EQ(progress("out").step, 3);
  EXPECT_EQ(global_batch("out"), 12);

  const Outcome again = here(1, std::string("train small.py") + kVocabulary);
  EXPECT_EQ(again.code, 2) << "scratch must not go on silently\n" << again.output;
  const Outcome resumed = done(here(1, "train small.py --init_from=resume"));
  EXPECT_THAT(resumed.output, HasSubstr("RESUMING from out/step-00000003"));
  EXPECT_EQ(progress("out").step, 4);
}

TEST_F(Nanogpt, ResumesWithTheRunsBlockSizeAndBatch) {
  done(here(1, std::string("train small.py --max_iters=2") + kVocabulary));
  const std::string bare =
      "train --dialect nanogpt --init_from=resume --out_dir=out --dataset=tokens --device=cpu --eval_iters=2 "
      "--dropout=0.2 --lr_decay_iters=4 --warmup_iters=1";
  const Outcome resumed = done(here(1, bare + " --max_iters=3"));
  EXPECT_THAT(resumed.output, HasSubstr("RESUMING from out/step-00000002"));
  EXPECT_THAT(resumed.output, HasSubstr("12 x 16 = 192 tokens per step"));
  EXPECT_EQ(progress("out").samples, 36U);
  done(here(1, bare + " --max_iters=4 --batch_size=6"));
  EXPECT_EQ(progress("out").samples, 48U);
  const Outcome other = here(1, bare + " --max_iters=5 --block_size=8");
  EXPECT_EQ(other.code, 2) << other.output;
  EXPECT_THAT(other.output, ContainsRegex("batch.sequence \\(flag --block_size\\) +16 +8 +"));
}

TEST_F(Nanogpt, AnotherModelOrBatchIsRefusedOnResume) {
  done(here(1, std::string("train small.py --max_iters=2") + kVocabulary));
  const Outcome refused = here(1, "train small.py --init_from=resume --n_layer=3 --n_embd=64 --bias=True");
  EXPECT_EQ(refused.code, 2) << refused.output;
  EXPECT_THAT(refused.output, ContainsRegex("model.layers \\(flag --n_layer\\) +2 +3 +impossible: another model"));
  EXPECT_THAT(refused.output, ContainsRegex("model.width \\(flag --n_embd\\) +32 +64 +impossible: another model"));
  EXPECT_THAT(refused.output, ContainsRegex("model.bias \\(flag --bias\\) +false +true +impossible"));
  const Outcome batch = here(1, "train small.py --init_from=resume --gradient_accumulation_steps=2");
  EXPECT_EQ(batch.code, 2) << batch.output;
  EXPECT_THAT(batch.output, ContainsRegex("batch.global \\(flag --gradient_accumulation_steps\\) +12 +24 +"));
}

TEST_F(Nanogpt, FineTunesALocalGpt2CroppedToTheBlockSize) {
  make_pretrained("models/gpt2-medium");
  const Outcome outcome = done(here(1, "train small.py --init_from=gpt2-medium --block_size=8 --dropout=0.0"));
  EXPECT_THAT(outcome.output, HasSubstr("starting from the weights of models/gpt2-medium"));
  const Spec spec = open_checkpoint(path("out")).facts.spec;
  EXPECT_EQ(spec.context, 8);
  EXPECT_TRUE(spec.biases.qkv) << "GPT-2 has biases whatever bias says";
  EXPECT_EQ(spec.activation, Activation::gelu_tanh) << "the folder's config.json says gelu_new";
  const Outcome absent = here(1, "train small.py --init_from=gpt2-xl --out_dir=other");  // ctest sets HF_HUB_OFFLINE
  EXPECT_EQ(absent.code, 1);
  EXPECT_THAT(absent.output, HasSubstr("no folder models/gpt2-xl on this host; HF_HUB_OFFLINE is set"));
}

// pickle.dumps({"vocab_size": 4, "itos": {0: "\n", 1: "a", 2: "b", 3: "e with an acute"}, "stoi": ...})
constexpr std::string_view kMeta(
    "\x80\x04\x95S\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x0avocab_size\x94K\x04\x8c\x04itos\x94}\x94("
    "K\x00\x8c\x01\x0a\x94K\x01\x8c\x01"
    "a\x94K\x02\x8c\x01"
    "b\x94K\x03\x8c\x02\xc3\xa9\x94u\x8c\x04stoi\x94}\x94(h\x04K\x00h\x05K\x01h\x06K\x02h\x07K\x03uu.",
    94);

TEST_F(Nanogpt, ItsOwnDataFolderAndCommandsDoWhatTheyDo) {
  std::filesystem::create_directories(path("data/chars"));
  std::string ids;
  for (int i = 0; i < 400; ++i) ids += std::string{static_cast<char>(i * i % 4), '\0'};
  write_text(path("data/chars/train.bin"), ids);
  write_text(path("data/chars/val.bin"), ids);
  write_text(path("data/chars/meta.pkl"), kMeta);
  const Outcome trained = done(here(1, "train small.py --dataset=chars --wandb_log=True"));
  EXPECT_THAT(trained.output, HasSubstr("nothing is sent to wandb; metrics are in RUN/metrics.jsonl"));
  EXPECT_EQ(open_checkpoint(path("out")).facts.spec.vocabulary, 4) << "meta.pkl says it";
  const Outcome sampled = done(here(1, "sample small.py --num_samples=2 --max_new_tokens=5 --threads 1"));
  EXPECT_THAT(sampled.output, HasSubstr("--- sample 2 of 2\n"));
  EXPECT_THAT(sampled.output, HasSubstr("5 tokens in ")) << "no stop at an end of text";
  const Outcome ten = done(here(1, "sample --out_dir=out --max_new_tokens=2 --threads 1"));
  EXPECT_THAT(ten.output, HasSubstr("--- sample 10 of 10\n")) << "sample.py's default";
  const Outcome named =
      done(here(1, "sample --model out --prompt a --max-new-tokens 1 --tokenizer data/chars/meta.pkl --threads 1"));
  EXPECT_THAT(named.output, HasSubstr("1 token in "));
  const Outcome again = done(here(1, "train small.py --dataset=chars --init_from=resume --max_iters=2"));
  EXPECT_THAT(again.output, HasSubstr("no steps left to train: 4 steps done, run.steps is 2"));
}

TEST_F(Nanogpt, AStarImportIsFollowedAndALoopIsRefused) {
  std::filesystem::create_directory(path("config"));
  write_text(path("config/base.py"), "batch_size = 4\nmax_iters = 77\ndropout = 0.25\n");
  write_text(path("star.py"), "from config.base import *\nout_dir = 'x'\n");
  const Outcome shown = done(here(1, "config show star.py"));
  for (const char* line : {"  steps: 77  # star.py:1\n", "  micro: 4  # star.py:1\n", "  dropout: 0.25  # star.py:1\n"})
    EXPECT_THAT(shown.output, HasSubstr(line));
  write_text(path("loop.py"), "for k in ['batch_size']:\n    globals()[k] = 2\n");
  const Outcome refused = here(1, "train loop.py");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.output, HasSubstr("loop.py:1: found \"for k in ['batch_size']:\"; only assignments"));
}

TEST_F(Nanogpt, EvaluatesOnlyAndWritesNothing) {
  make_pretrained("models/gpt2");
  const Outcome outcome = done(here(1, "train small.py --init_from=gpt2 --eval_only=True"));
  EXPECT_THAT(outcome.output, HasSubstr("evaluation at step 0: validation loss"));
  EXPECT_THAT(outcome.output, HasSubstr("train loss"));
  EXPECT_FALSE(std::filesystem::exists(path("out")));
}

TEST_F(Nanogpt, NamesUnknownKeysAndWrongTypes) {
  const Outcome unknown = here(1, "train small.py --bloc_size=8");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.output, HasSubstr("did you mean \"block_size\"?"));
  write_text(path("wrong.py"), "batch_size = 4\nblock_size = 'long'\n");
  const Outcome wrong = here(1, "train wrong.py");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.output, HasSubstr("wrong.py:2"));
  EXPECT_THAT(wrong.output, HasSubstr("expected a whole number"));
}

class GptNeox : public Dialects {
 protected:
  GptNeox() {
    std::filesystem::create_directory(path("conf"));
    write_text(path("conf/tiny.yml"), R"({
  "pipe-parallel-size": 1, "model-parallel-size": 1,
  "num-layers": 2, "hidden-size": 32, "num-attention-heads": 2, "seq-length": 16, "max-position-embeddings": 16,
  "pos-emb": "rotary", "rotary-pct": 0.5, "no-weight-tying": True, "gpt-j-residual": True,
  "init-method": "small_init", "output-layer-init-method": "wang_init",
  "optimizer": {"type": "Adam", "params": {"lr": 0.01, "betas": [0.9, 0.95],}},
  "min-lr": 0.001, "lr-decay-style": "cosine", "warmup": 0.25,
  "train-micro-batch-size-per-gpu": 6, "gradient-accumulation-steps": 2,
  "train-iters": 8, "lr-decay-iters": 8, "eval-interval": 4, "eval-iters": 1, "log-interval": 1, "checkpoint-factor": 100,
  "extra-save-iters": [0, 2],
  "hostfile": "/mock_path",
})");
    write_text(path("conf/local_setup.yml"), "{\"save\": \"checkpoints\", \"load\": \"checkpoints\"}");
  }
  static constexpr const char* kTrain =
      "train tiny local_setup.yml -d conf --data.dir . --model.vocabulary 31 --launch.threads 1 ";
};

TEST_F(GptNeox, TrainsFromItsFilesAndResumesFromLoad) {
  const Outcome outcome = done(here(1, kTrain + std::string("--run.steps 4")));
  EXPECT_THAT(
      outcome.output,
      HasSubstr("conf/local_setup.yml:1: load is checkpoints, which has no checkpoint; the run starts from scratch"));
  EXPECT_THAT(outcome.output, HasSubstr("1 key of gpt-neox has no effect here (--verbose shows why): hostfile"));
  EXPECT_THAT(
      outcome.output,
      ContainsRegex(" samples/sec: [0-9.]+ \\| iteration        4/       4 \\| elapsed time per iteration \\(ms\\): "
                    "[0-9.]+ \\| learning rate: [0-9.E-]+ \\| approx flops per GPU: [0-9.]+[KMGT]FLOPS \\| lm_loss: "
                    "[0-9.]+E\\+00 \\| grad norm: [0-9.]+ \\| loss scale: 1.0 \\| number of skipped iterations:   "
                    "0 \\| number of nan iterations:   0 \\|"));
  EXPECT_EQ(progress("checkpoints").samples, 4u * 12);
  EXPECT_EQ(open_checkpoint(path("checkpoints")).facts.spec.residual, Residual::parallel);
  for (const char* step : {"step-00000000", "step-00000002", "step-00000004"})
    EXPECT_TRUE(std::filesystem::exists(path("checkpoints") + "/" + step)) << step;
  done(here(1, kTrain + std::string("--verbose")));
  EXPECT_EQ(progress("checkpoints").step, 8);
  const std::map<int64_t, double> rates = [&] {
    std::map<int64_t, double> out;
    for (const Metrics& metrics : read_run_log(path("checkpoints/metrics.jsonl")).steps)
      out[metrics.step] = metrics.learning_rate;
    return out;
  }();
  EXPECT_DOUBLE_EQ(rates.at(1), 0.005) << "as NeoX: 0.01 x max(1, 0) / (0.25 x 8)";
  EXPECT_DOUBLE_EQ(rates.at(2), 0.005);
  EXPECT_DOUBLE_EQ(rates.at(3), 0.01);
  EXPECT_NEAR(rates.at(6), 0.0055, 1e-9) << "(5 - 2) / 6 of the decay";
}

/// The values of NeoX's llama and mistral files, in small: what they describe is a folder of these families.
TEST_F(GptNeox, LlamaAndMistralFilesTrainAndAreExportedAsTheirFamilies) {
  const std::string common =
      R"({"norm": "rmsnorm", "rms_norm_epsilon": 1.0e-5, "activation": "swiglu", "gpt-j-residual": False,
  "rotary-pct": 1.0, "use_bias_in_norms": False, "use_bias_in_attn_linear": False, "use_bias_in_mlp": False,
  "num_kv_heads": 1, )";
  const std::map<std::string, std::string> kinds = {
      {"llama", "\"intermediate_size\": 144}"},
      {"mistral",
       "\"intermediate_size\": 144, \"sliding_window_width\": 8, \"rotary_emb_base\": 100000, \"attention_config\": "
       "[[[\"flash\"], 2]]}"}};
  for (const auto& [kind, rest] : kinds) {
    write_text(path("conf/kind.yml"), common + rest);
    const std::string flags = " --run.steps 8 --run.dir ";
    done(here(1, "train tiny kind -d conf --data.dir . --model.vocabulary 31 --launch.threads 1" + flags + kind));
    done(here(1, "export --checkpoint " + kind + " --output folder-" + kind));
    const Json config = read_json(path("folder-" + kind + "/config.json"));
    EXPECT_EQ(config["model_type"], kind);
    EXPECT_EQ(config["num_key_value_heads"], 1);
    EXPECT_EQ(config["intermediate_size"], 48) << "a third, as NeoX computes it";
    EXPECT_EQ(config["rms_norm_eps"], 1e-5);
    EXPECT_EQ(config["tie_word_embeddings"], false);
    if (kind == "mistral") {
      EXPECT_EQ(config["sliding_window"], 9);
      EXPECT_EQ(config["rope_theta"], 1e5);
    }
    const Outcome again = done(here(
        1, "train --data.dir . --launch.threads 1 --batch.global 12 --batch.sequence 16 --model.init folder-" + kind +
               " --optim.learning-rate 0 --optim.min-learning-rate 0 --run.steps 1 --run.dir again-" + kind));
    // Not weights(): NeoX pads the vocabulary to another multiple.
    const auto hash = [&](const std::string& run) { return open_checkpoint(path(run)).facts.parameter_hash; };
    EXPECT_EQ(hash("again-" + kind), hash(kind));
    EXPECT_EQ(hash(kind).size(), 16u);
  }
}

// The model hardly changes at so low a rate, and a tenth of a deviation above the mean counts as a spike: many steps
// are skipped.
TEST_F(GptNeox, ASkippedStepDoesNotAdvanceTheRate) {
  const Outcome outcome =
      done(here(1, kTrain + std::string("--run.on-spike skip --run.spike-score 0.1 --run.steps 120 "
                                        "--lr_decay_iters 480 --optimizer.params.lr 1e-6 --min_lr 0.0")));
  const RunCounters end = progress("checkpoints");
  ASSERT_GT(end.skipped, 0) << outcome.output;
  EXPECT_EQ(end.updates + end.skipped, 120);
  int64_t updates = 0, skipped = 0;
  for (const Metrics& metrics : read_run_log(path("checkpoints/metrics.jsonl")).steps) {
    // 120 = 0.25 x 480 updates warm up
    EXPECT_DOUBLE_EQ(metrics.learning_rate, 1e-6 * static_cast<double>(std::max<int64_t>(1, updates)) / 120)
        << metrics.step;
    if (metrics.skipped == skipped) ++updates;
    skipped = metrics.skipped;
  }
  EXPECT_EQ(updates, end.updates);
}

TEST_F(GptNeox, RefusesWhatCannotBeTrainedBeforeAnythingIsMade) {
  const auto refused = [&](const std::string& flags, const std::string& message) {
    const Outcome outcome = here(1, kTrain + flags);
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(message));
    EXPECT_FALSE(std::filesystem::exists(path("checkpoints")));
  };
  refused("--model_parallel_size 2 --pipe_parallel_size 3", "needs a multiple of 6 processes");
  refused("--fp16.enabled true --zero_optimization.stage 2 --run.on-difference heal", "cannot train with 2 settings:");
  refused("--fp16.enabled true", "is f16, which is unsupported for training on CPUs; set --precision.dtype bf16");
  const Outcome shown = done(here(1,
                                  "config show tiny -d conf --ranks 8 --model_parallel_size 2 --pipe_parallel_size 2 "
                                  "--fp16.enabled true --verbose"));
  EXPECT_THAT(shown.output, HasSubstr("  tensor: 2  # flag --model_parallel_size\n"));
  EXPECT_THAT(shown.output, HasSubstr("  data: 2  # 8 ranks\n"));
  EXPECT_THAT(shown.output, HasSubstr("  global: 24  # "));
  EXPECT_THAT(shown.output, HasSubstr("hostfile has no effect here: ranks come from MPI"));
  EXPECT_THAT(done(here(1, "config show tiny -d conf --model.vocabulary 256 --ranks 4 --hosts 2")).output,
              AllOf(HasSubstr("Memory is planned with one thread per rank and 2 ranks per host."),
                    HasSubstr("of gradients per step to its data-parallel peers, but ")));
  EXPECT_THAT(here(1, "config show tiny -d conf --ranks 4 --hosts 3").output,
              HasSubstr("--ranks 4 cannot be spread evenly over --hosts 3"));
  EXPECT_THAT(here(1, "config show tiny -d conf --hosts 3").output,
              HasSubstr("--hosts needs --ranks; add the number of ranks"));
  const Outcome wrong = here(1, "config show tiny -d conf --ranks 0");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.output, HasSubstr("--ranks is 0, expected a whole number from 1 to 1048576"));
}

TEST_F(GptNeox, NeoxsOwnFolderIsNotTouched) {
  std::filesystem::create_directory(path("checkpoints"));
  write_text(path("checkpoints/latest"), "global_step7");
  const Outcome outcome = here(1, kTrain);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("never overwritten; name another folder: --run.dir checkpoints-trireme"));
  const Outcome absent = here(1, kTrain + std::string("--run.dir mine --run.steps 1"));
  EXPECT_EQ(absent.code, 1);
  EXPECT_THAT(absent.output,
              HasSubstr("checkpoints/latest names global_step7, but this folder does not exist beside it"));
  done(here(1, kTrain + std::string("--run.dir mine --run.steps 1 --checkpoint.resume none")));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("checkpoints")), {}), 1);
}

}  // namespace
}  // namespace trireme
