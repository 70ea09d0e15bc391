// Every flag that metaseq's launcher and its train.py have had since May 2022 (its last version: f7ffa5f), with the
// model, tasks, optimizers and schedules that they register.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "base/file.h"
#include "config/dialect.h"
#include "config/foreign_options.h"
#include "config/load.h"
#include "config/schema.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using enum ForeignOption::Kind;

struct MetaseqFlag {
  const char* name;
  ForeignOption::Kind kind;  ///< after `train`, with a value that has no row of its own in the table
};

// clang-format off
const MetaseqFlag kFlags[] = {
    // sweep.py and opt_baselines.py
    {"--update-freq", same},
    {"--seed", same},
    {"--local-checkpoints-dir", same},
    {"--max-update", same},
    {"--mu", same},
    {"--resume-failed", no_effect},
    {"--snapshot-code", no_effect},
    {"--snapshot-root", no_effect},
    {"--snapshot-recurse-dirs-internal", no_effect},
    {"--snapshot-recurse-dirs-oss", no_effect},
    {"--no-wandb", no_effect},
    {"--grid", elsewhere},
    {"--data", elsewhere},
    {"-p", elsewhere},
    {"--prefix", elsewhere},
    {"-t", elsewhere},
    {"--num-trials", elsewhere},
    {"-g", elsewhere},
    {"--num-gpus", elsewhere},
    {"-n", elsewhere},
    {"--num-nodes", elsewhere},
    {"--dry-run", elsewhere},
    {"--local", elsewhere},
    {"--debug", elsewhere},
    {"--script", elsewhere},
    {"--python", elsewhere},
    {"--salloc", elsewhere},
    {"--reservation", elsewhere},
    {"--exclusive", elsewhere},
    {"--time", elsewhere},
    {"--mem", elsewhere},
    {"--constraint", elsewhere},
    {"--comment", elsewhere},
    {"--no-tensorboard", elsewhere},
    {"--post-steps", elsewhere},
    {"--azure", elsewhere},
    {"--aws", elsewhere},
    {"--fair", elsewhere},
    {"--rsc", elsewhere},
    {"--full-azure-upload-path", elsewhere},
    {"--azure-folder-auto-name", elsewhere},
    {"--partition", elsewhere},
    {"--checkpoints-dir", elsewhere},
    {"--cpus-per-task", elsewhere},
    {"--cpu-bind", elsewhere},
    {"--tensorboard-logdir", elsewhere},
    {"-ts", elsewhere},
    {"--tombstonable", elsewhere},
    {"--restore-file", elsewhere},
    {"--reset-dataloader", elsewhere},
    {"--model-size", elsewhere},
    {"--no-save-dir", elsewhere},
    {"--benchmark", elsewhere},
    {"--max-epoch", elsewhere},
    {"--me", elsewhere},
    {"--disable-validation", elsewhere},
    {"--circleci", elsewhere},
    // CommonConfig
    {"--model-parallel-size", same},
    {"--profile", same},
    {"--log-format", no_effect},
    {"--aim-repo", no_effect},
    {"--aim-run-hash", no_effect},
    {"--wandb-project", no_effect},
    {"--azureml-logging", no_effect},
    {"--cpu", same},
    {"--fp16-no-flatten-grads", no_effect},
    {"--fp16-init-scale", same},
    {"--fp16-scale-window", same},
    {"--fp16-scale-tolerance", no_effect},
    {"--min-loss-scale", same},
    {"--threshold-loss-scale", same},
    {"--empty-cache-freq", no_effect},
    {"--all-gather-list-size", no_effect},
    {"--use-plasma-view", no_effect},
    {"--plasma-path", no_effect},
    {"--log-nvidia-smi", no_effect},
    {"--quiet-logs", no_effect},
    {"--log-interval", elsewhere},
    {"--log-file", elsewhere},
    {"--seed-per-rank", elsewhere},
    {"--fp16", elsewhere},
    {"--memory-efficient-fp16", elsewhere},
    {"--bf16", elsewhere},
    {"--user-dir", elsewhere},
    // DistributedTrainingConfig
    {"--bucket-cap-mb", same},
    {"--distributed-backend", no_effect},
    {"--fix-batches-to-gpus", no_effect},
    {"--find-unused-parameters", no_effect},
    {"--fast-stat-sync", no_effect},
    {"--broadcast-buffers", no_effect},
    {"--use-sharded-state", no_effect},
    {"--distributed-world-size", elsewhere},
    {"--distributed-rank", elsewhere},
    {"--distributed-init-method", elsewhere},
    {"--distributed-port", elsewhere},
    {"--device-id", elsewhere},
    {"--local-rank", elsewhere},
    {"--distributed-no-spawn", elsewhere},
    {"--ddp-backend", elsewhere},
    {"--task-ddp-backend", elsewhere},
    {"--no-reshard-after-forward", elsewhere},
    {"--fp32-reduce-scatter", elsewhere},
    {"--cpu-offload", elsewhere},
    {"--gradient-predivide-factor", elsewhere},
    // DatasetConfig
    {"--validate-interval-updates", same},
    {"--num-workers", no_effect},
    {"--num-workers-valid", no_effect},
    {"--required-batch-size-multiple", no_effect},
    {"--data-buffer-size", no_effect},
    {"--ignore-unused-valid-subsets", no_effect},
    {"--gen-subset", no_effect},
    {"--num-shards", no_effect},
    {"--shard-id", no_effect},
    {"--skip-invalid-size-inputs-valid-test", elsewhere},
    {"--max-tokens", elsewhere},
    {"--batch-size", elsewhere},
    {"--max-sentences", elsewhere},
    {"--dataset-impl", elsewhere},
    {"--skip-batches", elsewhere},
    {"--train-subset", elsewhere},
    {"--valid-subset", elsewhere},
    {"--combine-valid-subsets", elsewhere},
    {"--combine-val", elsewhere},
    {"--validate-after-updates", elsewhere},
    {"--fixed-validation-seed", elsewhere},
    {"--max-tokens-valid", elsewhere},
    {"--batch-size-valid", elsewhere},
    {"--max-sentences-valid", elsewhere},
    {"--max-valid-steps", elsewhere},
    {"--nval", elsewhere},
    // OptimizationConfig
    {"--clip-norm", same},
    {"--lr", same},
    {"--clip-norm-type", elsewhere},
    {"--skip-gradient-update-on-clip-norm", elsewhere},
    {"--ewm-ratio-to-skip-batch", elsewhere},
    // CheckpointConfig
    {"--save-dir", same},
    {"--save-interval-updates", same},
    {"--checkpoint-shard-count", no_effect},
    {"--write-checkpoints-asynchronously", no_effect},
    {"--save-async", no_effect},
    {"--nfs-eval-num-attempts", no_effect},
    {"--nfs-eval-attempt-wait-minutes", no_effect},
    {"--nfs-eval-frequency", no_effect},
    {"--cluster-env", no_effect},
    {"--finetune-from-model", elsewhere},
    {"--reset-lr-scheduler", elsewhere},
    {"--reset-meters", elsewhere},
    {"--reset-optimizer", elsewhere},
    {"--optimizer-overrides", elsewhere},
    {"--save-interval-epochs", elsewhere},
    {"--local-save-interval-updates", elsewhere},
    {"--save-last-checkpoint", elsewhere},
    {"--keep-last-epochs", elsewhere},
    {"--keep-last-updates", elsewhere},
    {"--checkpoint-suffix", elsewhere},
    {"--cloud-upload-path", elsewhere},
    {"--cloud-dir", elsewhere},
    {"--nfs-eval-script-path", elsewhere},
    {"--sequence-parallel", elsewhere},
    // EMAConfig
    {"--ema-decay", no_effect},
    {"--ema-start-update", no_effect},
    {"--ema-update-freq", no_effect},
    {"--ema-fp32", no_effect},
    {"--store-ema", elsewhere},
    {"--ema-seed-model", elsewhere},
    // TransformerLanguageModelConfig
    {"--attention-dropout", same},
    {"--decoder-embed-dim", same},
    {"--decoder-ffn-embed-dim", same},
    {"--decoder-layers", same},
    {"--decoder-attention-heads", same},
    {"--tokens-per-sample", same},
    {"--no-scale-embedding", no_effect},
    {"--min-params-to-wrap", no_effect},
    {"--fsdp-checkpoint-wrap-layer-frequency", no_effect},
    {"--tensor-parallel-init-model-on-gpu", no_effect},
    {"--xf-attn-op", no_effect},
    {"--arch", elsewhere},
    {"-a", elsewhere},
    {"--activation-fn", elsewhere},
    {"--dropout", elsewhere},
    {"--share-decoder-input-output-embed", elsewhere},
    {"--decoder-learned-pos", elsewhere},
    {"--decoder-learned-sinusoidal", elsewhere},
    {"--checkpoint-activations", elsewhere},
    {"--offload-activations", elsewhere},
    {"--alibi", elsewhere},
    {"--self-attn-doc-sep", elsewhere},
    {"--distribute-checkpointed-activations", elsewhere},
    {"--full-megatron-init", elsewhere},
    {"--full-megatron-init-scalar", elsewhere},
    {"--pos-init-scalar", elsewhere},
    {"--truncate-init", elsewhere},
    {"--megatron-init-sigma", elsewhere},
    {"--no-emb-dropout", elsewhere},
    {"--disable-bias", elsewhere},
    {"--disable-affine-ln", elsewhere},
    {"--attn-variant", elsewhere},
    {"--recompute-fc1-num-layers", elsewhere},
    {"--add-bos-token", elsewhere},
    {"--max-target-positions", elsewhere},
    // StreamingLanguageModelingConfig
    {"--final-vocab-size", same},
    {"--data-subshard-count", no_effect},
    {"--cm3-num-sentinel-tokens", no_effect},
    {"--cm3-lambda-sentinel-tokens", no_effect},
    {"--cm3-allow-across-eod-boundaries", no_effect},
    {"--task", elsewhere},
    {"--hf-tokenizer", elsewhere},
    {"--vocab-filename", elsewhere},
    {"--merges-filename", elsewhere},
    {"--end-of-document-symbol", elsewhere},
    {"--sample-break-mode", elsewhere},
    {"--max-source-positions", elsewhere},
    {"--multicorpus-sampling-alpha", elsewhere},
    {"--multicorpus-sampling-maximum", elsewhere},
    {"--language-modeling-type", elsewhere},
    {"--cm3-mode", elsewhere},
    // DummyLMConfig
    {"--dict-size", elsewhere},
    {"--dataset-size", elsewhere},
    // adam, sgd
    {"--adam-eps", same},
    {"--optimizer", elsewhere},
    {"--adam-betas", elsewhere},
    {"--weight-decay", elsewhere},
    {"--use-old-adam", elsewhere},
    {"--fp16-adam-stats", elsewhere},
    {"--momentum", elsewhere},
    {"--wd", elsewhere},
    // learning rates
    {"--warmup-updates", same},
    {"--end-learning-rate", same},
    {"--power", same},
    {"--total-num-update", same},
    {"--lr-scheduler", elsewhere},
    {"--force-anneal", elsewhere},
    {"--zero-lr-warmup-steps", elsewhere},
    {"--warmup-init-lr", elsewhere},
    {"--min-lr", elsewhere},
    {"--t-mult", elsewhere},
    {"--lr-period-updates", elsewhere},
    {"--lr-shrink", elsewhere},
    // registries
    {"--criterion", elsewhere},
    {"--tokenizer", elsewhere},
    {"--bpe", elsewhere},
    // of earlier versions
    {"--load-checkpoint-on-all-dp-ranks", no_effect},
    {"--dont-log-param-and-grad-norm", no_effect},
    {"--no-progress-bar", no_effect},
    {"--zero-sharding", elsewhere},
    {"--eval-module", elsewhere},
    {"--evaluate-interval-updates", elsewhere},
    {"--evaluate-last-checkpoint", elsewhere},
    {"--train-with-epoch-remainder-batch", elsewhere},
    {"--dynamic-config-path", elsewhere},
    {"--dynamic-config-timeout", elsewhere},
    {"--best-checkpoint-metric", elsewhere},
    {"--maximize-best-checkpoint-metric", elsewhere},
    {"--patience", elsewhere},
    {"--new-profiler", elsewhere},
    {"--heartbeat-timeout", elsewhere},
    {"--save-interval", elsewhere},
    {"--keep-interval-updates", elsewhere},
    {"--keep-best-checkpoints", elsewhere},
    {"--no-save", elsewhere},
    {"--no-epoch-checkpoints", elsewhere},
    {"--no-last-checkpoints", elsewhere},
    {"--no-best-checkpoints", elsewhere},
    {"--no-save-optimizer-state", elsewhere},
    {"--no-save-optimizer-state-on-training-finished", elsewhere},
    {"--validate-interval", elsewhere},
    {"--decoder-output-dim", elsewhere},
    {"--decoder-input-dim", elsewhere},
    {"--decoder-normalize-before", elsewhere},
    {"--use-stable-embedding", elsewhere},
    {"--scale-fc", elsewhere},
    {"--scale-attn", elsewhere},
    {"--scale-heads", elsewhere},
    {"--sync-ln-variance", elsewhere},
    {"--block-wise", elsewhere},
};
// clang-format on

/// The name after `did you mean "` in the error; "" if it has none, "accepted" without an error.
std::string hint_of(const std::vector<std::string>& flags, const std::optional<std::string>& dialect = {}) {
  try {
    const ConfigWords words = split_words(flags);
    load_config(words.files, words.flags, dialect);
  } catch (const Error& e) {
    std::smatch found;
    const std::string text = e.what();
    return std::regex_search(text, found, std::regex("did you mean \"([^\"]*)\"")) ? found[1].str() : "";
  }
  return "accepted";
}

/// Misspellings of a name: a letter left out, doubled, two in the wrong order.
std::vector<std::string> slips_of(const std::string& name) {
  std::vector<std::string> slips;
  for (size_t i = 3; i + 1 < name.size(); i += 5) {
    if (name[i] == '-' || name[i + 1] == '-') continue;
    slips.push_back(name.substr(0, i) + name.substr(i + 1));
    slips.push_back(name.substr(0, i) + name[i] + name.substr(i));
    if (name[i] != name[i + 1]) slips.push_back(name.substr(0, i) + name[i + 1] + name[i] + name.substr(i + 2));
  }
  return slips;
}

TEST(MetaseqFlags, AreRenamedWithoutEffectOrRefused) {
  for (const MetaseqFlag& flag : kFlags) {
    SCOPED_TRACE(flag.name);
    const ForeignOption* found = find_foreign("train", flag.name, "x");
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->kind, flag.kind);
    EXPECT_STRNE(found->text, "");
    const std::vector<std::string> words{flag.name, "7"};
    if (flag.kind == elsewhere) {
      EXPECT_ERROR(split_words(words), ErrorKind::config,
                   fmt::format("{} 7 is not supported; instead: {}", flag.name, found->text));
      continue;
    }
    const ConfigWords taken = split_words(words);
    if (found->is_switch && flag.kind == same) {
      EXPECT_THAT(taken.flags, ElementsAre(found->text));
      EXPECT_THAT(taken.files, ElementsAre("7"));
    } else if (flag.kind == same) {
      EXPECT_NE(schema().find(std::string_view(found->text).substr(2)), nullptr);
      EXPECT_THAT(taken.flags, ElementsAre(found->text, "7"));
    } else {
      EXPECT_TRUE(taken.flags.empty());
    }
  }
}

TEST(MetaseqFlags, WithOptsOwnValuesAreAccepted) {
  EXPECT_THAT(split_words({"--activation-fn", "relu"}).flags, ElementsAre("--model.activation=relu"));
  EXPECT_THAT(split_words({"--activation-fn=gelu"}).flags, ElementsAre("--model.activation=gelu-tanh"));
  EXPECT_THAT(split_words({"--lr-scheduler=polynomial_decay"}).flags, ElementsAre("--optim.schedule=polynomial"));
  for (const char* word : {"--optimizer=adam", "--criterion=cross_entropy", "--criterion=vocab_parallel_cross_entropy",
                           "--sample-break-mode=none", "--clip-norm-type=l2"})
    EXPECT_TRUE(split_words({word}).flags.empty()) << word;
}

TEST(MetaseqFlags, OfTheLauncherAreKnownAfterSlurmToo) {
  // sbatch has these as well, and they keep its meaning.
  const char* const own[] = {"-p",    "-t",           "-d",          "--reservation",   "--exclusive", "--time",
                             "--mem", "--constraint", "--partition", "--cpus-per-task", "--cpu-bind"};
  constexpr size_t kOfLauncher = 57;
  ASSERT_STREQ(kFlags[kOfLauncher - 1].name, "--circleci");
  for (const MetaseqFlag& flag : std::span(kFlags).first(kOfLauncher)) {
    if (std::ranges::find(own, std::string_view(flag.name)) != std::end(own)) continue;
    EXPECT_NE(find_foreign("slurm", flag.name, "x"), nullptr) << flag.name;
  }
}

TEST(MetaseqFlags, AreRefusedWithOptionsThatExist) {
  const std::regex option("--([a-z]+\\.[a-z0-9-]+)");
  size_t seen = 0;
  for (const ForeignOption& foreign : foreign_options()) {
    const std::string text = foreign.text;
    for (auto it = std::sregex_iterator(text.begin(), text.end(), option); it != std::sregex_iterator(); ++it, ++seen)
      EXPECT_NE(schema().find((*it)[1].str()), nullptr) << foreign.name << ": " << text;
  }
  EXPECT_GT(seen, 100u);
}

TEST(MetaseqFlags, WithoutAValueLeaveTheNextWordAlone) {
  const TemporaryFolder folder;
  write_text(folder / "a.yaml", "run: {steps: 7}\n");
  for (const char* name : {"--no-wandb", "--use-sharded-state"})
    EXPECT_THAT(split_words({name, folder / "a.yaml"}).files, ElementsAre(folder / "a.yaml")) << name;
  EXPECT_TRUE(split_words({"--no-wandb", "True"}).files.empty());
  EXPECT_THAT(split_words({"--cpu", folder / "a.yaml"}).files, ElementsAre(folder / "a.yaml"));
}

TEST(MetaseqFlags, ThatADialectHasAreItsOwnWhereItIsSpoken) {
  const TemporaryFolder folder;
  write_text(folder / "a.py", "n_layer = 2\n");
  write_text(folder / "a.yaml", "run: {steps: 7}\n");
  for (const char* name : {"--batch_size", "--dropout", "--log_interval", "--weight_decay", "--min_lr"}) {
    EXPECT_THAT(split_words({"--dialect", "nanogpt", name, "1"}).flags, ElementsAre(name, "1"));
    EXPECT_THAT(split_words({folder / "a.py", name, "1"}).flags, ElementsAre(name, "1"));
    EXPECT_ERROR(split_words({folder / "a.yaml", name, "1"}), ErrorKind::config, "(nanoGPT's keys: --dialect nanogpt)");
  }
  EXPECT_THAT(split_words({"-d", folder.path(), "a.py", "--dropout", "1"}).flags, ElementsAre("--dropout", "1"));
  EXPECT_ERROR(split_words({"-d", folder.path(), "a.yaml", "--dropout", "1"}), ErrorKind::config, "--dropout 1 is not");
  for (const char* name : {"--model_parallel_size", "--min-lr", "--weight_decay", "--gradient_predivide_factor"})
    EXPECT_THAT(split_words({"--dialect", "gpt-neox", name, "1"}).flags, ElementsAre(name, "1"));
  for (const char* name : {"--hostfile", "--num_gpus", "--num-nodes"})
    EXPECT_ERROR(split_words({"--dialect", "gpt-neox", name, "1"}), ErrorKind::config, "instead: `mpirun -n N trireme");
  EXPECT_THAT(split_words({"--dialect", "gpt-neox", "--profile", "5"}).flags, ElementsAre("--log.profile", "5"));
  EXPECT_ERROR(split_words({"--debug"}), ErrorKind::config, "--debug is not supported; instead: --verbose");
}

TEST(Hints, NameNoKeyOfAnotherMeaning) {
  const TemporaryFolder folder;
  const std::tuple<const char*, const char*> slips[] = {
      {"dta", "data"}, {"parition", "partition"}, {"lcal", "local"}, {"schdule", "optim.schedule"}, {"shard-d", ""}};
  for (const auto& [slip, meant] : slips) EXPECT_EQ(hint_of({std::string("--") + slip, "1"}), meant) << slip;
  // Files have no flags of other programs.
  for (const char* slip : {"dta", "parition", "lcal"}) {
    write_text(folder / "a.yaml", fmt::format("run: {{steps: 7}}\n{}: 1\n", slip));
    EXPECT_ERROR(load_config({folder / "a.yaml"}, {}), ErrorKind::config,
                 fmt::format("unknown option \"{}\", and none has a similar name", slip));
  }
}

TEST(MetaseqFlags, WithASlipArePointedAtThemselvesOrNothing) {
  size_t slips = 0, hints = 0;
  for (const MetaseqFlag& flag : kFlags) {
    const std::string name = flag.name;
    for (const std::string& slip : slips_of(name)) {
      if (find_foreign("train", slip, "x")) continue;  // another flag
      ++slips;
      const std::string hint = hint_of({slip, "1"});
      if (hint.empty()) continue;
      ++hints;
      // Or at an option that the table names for the flag.
      const std::regex named(fmt::format("(^|[^a-z-])--{}($|[^a-z.-])", hint));
      EXPECT_TRUE(hint == name.substr(2) || std::regex_search(find_foreign("train", name, "x")->text, named))
          << slip << " for " << name << ": " << hint;
    }
  }
  EXPECT_GT(10 * hints, 8 * slips) << "most slips have a hint";
  EXPECT_GT(hints, 300u);
}

TEST(DialectKeys, WithASlipArePointedAtThemselvesOrNothing) {
  for (const Dialect* dialect : {&kNanogpt, &kIntelNanogpt}) {
    size_t slips = 0, hints = 0;
    for (const DialectKey& key : dialect->keys) {
      const std::string name = key.name;
      if (name.ends_with(".*")) continue;
      for (const std::string& slip : slips_of(name)) {
        if (dialect->find(slip)) continue;
        ++slips;
        const std::string hint = hint_of({"--model.init", "gpt2", "--" + slip, "1"}, dialect->name);
        if (hint.empty()) continue;
        ++hints;
        EXPECT_TRUE(hint == name || hint == key.option) << slip << " for " << name << ": " << hint;
      }
    }
    EXPECT_GT(10 * hints, 8 * slips) << dialect->name;
    EXPECT_GT(hints, 50u) << dialect->name;
  }
}

}  // namespace
}  // namespace trireme
