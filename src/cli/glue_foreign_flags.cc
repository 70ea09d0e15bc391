#include "cli/glue_foreign_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/error.h"
#include "base/log.h"

namespace trireme {
namespace {

/// Neither numbers nor outputs depend on them here.
constexpr const char* kWithoutEffect[] = {
    // where things come from and go to
    "cache-dir", "use-fast-tokenizer", "use-auth-token", "token", "overwrite-cache", "model-revision",
    "trust-remote-code", "hub-model-id", "hub-strategy", "hub-token", "hub-private-repo", "hub-always-push",
    "hub-revision", "push-to-hub-model-id", "push-to-hub-organization", "push-to-hub-token", "report-to", "run-name",
    "project", "trackio-space-id", "logging-dir", "log-level", "log-level-replica", "log-on-each-node",
    "logging-nan-inf-filter", "disable-tqdm", "no-deprecation-warning", "skip-memory-metrics", "save-on-each-node",
    "include-num-input-tokens-seen", "include-tokens-per-second",
    // devices and processes
    "xpu-backend", "no-cuda", "use-cpu", "use-ipex", "use-mps-device", "local-rank", "tpu-num-cores",
    "tpu-metrics-debug", "tf32", "half-precision-backend", "fp16-backend", "fp16-opt-level", "jit-mode-eval",
    "torch-compile", "torch-compile-backend", "torch-compile-mode", "torchdynamo", "torch-empty-cache-steps",
    "ddp-backend", "ddp-bucket-cap-mb", "ddp-find-unused-parameters", "ddp-broadcast-buffers", "ddp-static-graph",
    "ddp-timeout", "accelerator-config", "mp-parameters", "ray-scope", "use-liger-kernel",
    // how rows are fed; here they are in memory, in an order that the seed gives
    "dataloader-num-workers", "dataloader-pin-memory", "dataloader-persistent-workers", "dataloader-prefetch-factor",
    "dataloader-in-order", "dispatch-batches", "split-batches", "length-column-name", "remove-unused-columns",
    "full-determinism", "eval-accumulation-steps", "eval-do-concat-batches", "eval-use-gather-object",
    "batch-eval-metrics", "include-inputs-for-metrics", "average-tokens-across-devices", "use-cache",
    // of what is refused below
    "metric-for-best-model", "greater-is-better", "past-index", "gradient-checkpointing-kwargs", "fsdp-config",
    "restore-callback-states-from-checkpoint"};

struct Refused {
  const char* name;
  std::vector<std::string> harmless;  ///< values that change nothing, in lower case
  const char* instead;
};
const std::vector<Refused>& refused() {
  static const std::vector<std::string> no{"false"}, nothing{"", "none"};
  static const std::vector<Refused> all{
      {"fp16", no, "--bf16, or f32, which is the default"},
      {"fp16-full-eval", no, "--bf16, or f32, which is the default"},
      {"bf16-full-eval", no, "--bf16, with which evaluation is in bf16 too"},
      {"label-smoothing-factor", {"0", "0.0"}, "no smoothing"},
      {"label-smoothing", {"0", "0.0"}, "no smoothing"},
      {"neftune-noise-alpha", nothing, "no noise"},
      {"adafactor", no, "AdamW"},
      {"optim", {"adamw_hf", "adamw_torch", "adamw_torch_fused"}, "AdamW"},
      {"optim-args", nothing, "--adam-beta1, --adam-beta2, --adam-epsilon"},
      {"optim-target-modules", nothing, "AdamW on all parameters"},
      {"lr-scheduler-kwargs", {"", "none", "{}"}, "--lr-scheduler-type with --warmup-steps"},
      {"data-seed", nothing, "--seed, which orders the rows too"},
      {"dataloader-drop-last", no, "every row of every epoch is used"},
      {"group-by-length", no, "rows are packed without padding, in shuffled order"},
      {"train-sampling-strategy", {"random"}, "rows are packed without padding, in shuffled order"},
      {"auto-find-batch-size", no, "--per-device-train-batch-size with --gradient-accumulation-steps"},
      {"load-best-model-at-end", no, "the last model; checkpoints hold the others"},
      {"save-only-model", no, "--save-strategy no: the model is written at the end"},
      {"save-safetensors", {"true"}, "model.safetensors"},
      {"eval-delay", {"0", "0.0"}, "--eval-strategy steps with --eval-steps"},
      {"eval-on-start", no, "--do-eval without --do-train"},
      {"prediction-loss-only", no, "the task's metrics"},
      {"label-names", nothing, "the task's labels, or the column \"label\""},
      {"deepspeed", nothing, "mpirun -n N trireme glue"},
      {"sharded-ddp", nothing, "mpirun -n N trireme glue"},
      {"fsdp", nothing, "mpirun -n N trireme glue"},
      {"parallelism-config", nothing, "mpirun -n N trireme glue"},
      {"push-to-hub", no, "the folder that is written"},
      {"gradient-checkpointing", no, "--model.recompute"},
      {"dataset-name", {"", "none", "glue", "nyu-mll/glue"}, "--task-name with --data-dir, or --train-file"},
      {"dataset-config-name", nothing, "--task-name with --data-dir, or --train-file"},
      {"config-name", nothing, "a model folder with the config.json"},
      {"ignore-data-skip", no, "a resumed run goes on with the rows that follow"},
      {"ignore-mismatched-sizes", no, "a model whose head has the task's classes, or none"},
      {"debug", nothing, "no debugging"},
  };
  return all;
}

std::string plain(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

void check(const Refused& flag, const std::string& value) {
  const bool harmless = std::ranges::find(flag.harmless, plain(value)) != flag.harmless.end();
  require(harmless, ErrorKind::config, "--{} {} is not supported; instead: {}", flag.name, value, flag.instead);
}

/// False: no argument of theirs.
bool accept(const std::string& name, const std::string& value) {
  const auto known = std::ranges::find_if(refused(), [&](const Refused& flag) { return name == flag.name; });
  if (known != refused().end()) {
    check(*known, value);
    return true;
  }
  const auto called = [&](const char* other) { return name == other; };
  if (std::ranges::none_of(kWithoutEffect, called)) return false;
  log::info("--{} has no effect here", name);
  return true;
}

}  // namespace

void take_foreign_flags(std::vector<std::string>& words) {
  std::vector<std::string> rest;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    std::string name =
        words[i].starts_with("--") ? words[i].substr(2, equals == words[i].npos ? equals : equals - 2) : "";
    std::ranges::replace(name, '_', '-');
    const bool next = equals == words[i].npos && i + 1 < words.size() && !words[i + 1].starts_with("--");
    const std::string value = equals != words[i].npos ? words[i].substr(equals + 1) : next ? words[i + 1] : "True";
    if (!accept(name, value)) {
      rest.push_back(words[i]);
    } else if (next) {
      ++i;
    }
  }
  words = std::move(rest);
}

std::string foreign_flags_help() {
  constexpr size_t kWidth = 100;
  std::string text = "Accepted without effect here:\n ";
  size_t column = 1;
  for (const std::string_view name : kWithoutEffect) {
    if (column + name.size() > kWidth) {
      text += "\n ";
      column = 1;
    }
    text += fmt::format(" {}", name);
    column += name.size() + 1;
  }
  text += "\nRefused, as they would change numbers or outputs, with what is there instead:\n";
  for (const Refused& flag : refused()) text += fmt::format("  {:<24} {}\n", flag.name, flag.instead);
  return text;
}

}  // namespace trireme
