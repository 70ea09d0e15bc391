// Dialect nanogpt: nanoGPT's `--key=value` flags and its configuration files of Python assignments. A step is an
// optimizer step, and a run has max_iters of them (nanoGPT's loop has one more).

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "config/choices.h"
#include "config/dialect.h"
#include "hub/name.h"
#include "tensor/activation.h"
#include "tensor/dtype.h"

namespace trireme {
namespace {

using enum DialectRow::Kind;

constexpr DialectRow kRows[] = {
    {"out_dir=out", same, "run.dir"},
    {"eval_interval=2000", mapped, "evaluation.every, and checkpoint.every (see always_save_checkpoint)"},
    {"log_interval=1", same, "log.every"},
    {"eval_iters=200", mapped, "evaluation.batches: the same number of sequences, rounded up to global batches"},
    {"eval_only=false", same, "evaluation.only"},
    {"always_save_checkpoint=true", mapped,
     "True: checkpoint.every = eval_interval; False: 0; the best snapshot is kept in both cases"},
    {"init_from=scratch", only, "expected scratch, resume, gpt2, gpt2-medium, gpt2-large or gpt2-xl",
     "model.init and checkpoint.resume: scratch; resume (from out_dir); gpt2, gpt2-medium, gpt2-large, gpt2-xl (a "
     "folder of that name in pretrained_dir, otherwise the model on the Hugging Face hub)",
     "scratch|resume|gpt2|gpt2-medium|gpt2-large|gpt2-xl"},
    {"pretrained_dir=models", mapped,
     "folder with a Hugging Face folder each for gpt2, gpt2-medium, ... of init_from; missing ones are fetched from "
     "the hub"},
    {"wandb_log=false; wandb_project=owt; wandb_entity=; wandb_run_name=gpt2", no_effect,
     "nothing is sent to wandb; metrics are in RUN/metrics.jsonl and RUN/tensorboard"},
    {"dataset=openwebtext", mapped, "data.dir = data/DATASET"},
    {"gradient_accumulation_steps=40", mapped, "batch.global = batch_size x this, for any number of ranks"},
    {"batch_size=12", same, "batch.micro"},
    {"block_size=1024", same, "batch.sequence", "batch.sequence and model.context; a longer model is cropped to it"},
    {"n_layer=12", mapped, "model.layers, if init_from is scratch; resume: must equal the checkpoint's"},
    {"n_head=12", mapped, "model.heads, as n_layer"},
    {"n_embd=768", mapped, "model.width, as n_layer"},
    {"dropout=0.0", same, "model.dropout"},
    {"bias=false", mapped, "model.bias, as n_layer (GPT-2 models always have biases)"},
    {"learning_rate=6e-4", same, "optim.learning-rate"},
    {"max_iters=600000", same, "run.steps", "run.steps: exactly this number (nanoGPT has one more)"},
    {"weight_decay=0.1", same, "optim.weight-decay"},
    {"beta1=0.9", same, "optim.beta1"},
    {"beta2=0.95", same, "optim.beta2"},
    {"betas", refused, "set beta1 and beta2"},
    {"grad_clip=1.0", same, "optim.clip"},
    {"decay_lr=true", mapped, "optim.schedule: cosine, or constant without warm-up"},
    {"warmup_iters=2000", mapped, "optim.warmup-steps"},
    {"lr_decay_iters=600000", mapped, "optim.decay-steps"},
    {"min_lr=6e-5", mapped, "optim.min-learning-rate"},
    {"backend=nccl", no_effect, "the build and the launcher determine how ranks communicate"},
    {"device=cuda", only, "expected cpu, cuda or cuda:0", "run.device: cpu, cuda or cuda:0 (not given: auto)",
     "cpu|cuda|cuda:0"},
    {"dtype=bfloat16", only, "expected float32, bfloat16 or float16",
     "precision.dtype: float32, bfloat16 or, on GPUs, float16 (not given: f32, in which nanoGPT computes on a CPU)",
     "float32|bfloat16|float16"},
    {"compile=true; compile_model=true", no_effect, "kernels are compiled ahead of time"},
    {"start=\n", not_a_flag, "it belongs to sampling: `trireme sample --model RUN --start TEXT`"},
    {"num_samples=10", not_a_flag, "it belongs to sampling: `trireme sample --model RUN --num-samples N`"},
    {"max_new_tokens=500", not_a_flag, "it belongs to sampling: `trireme sample --model RUN --max-new-tokens N`"},
    {"temperature=0.8", not_a_flag, "it belongs to sampling: `trireme sample --model RUN --temperature T`"},
    {"top_k=200", not_a_flag, "it belongs to sampling: `trireme sample --model RUN --top-k K`"},
    {"seed=1337", mapped, "run.seed, if it is given (nanoGPT's train.py always uses 1337)"},
    {"real_data=true", not_a_flag, "it belongs to benchmarks: `trireme bench step`, with --data FILE for real tokens"},
    {"profile=false", not_a_flag,
     "it belongs to benchmarks: `trireme bench step`; `trireme train ... --log.profile 5` times every operator"},
};
const std::vector<DialectKey> kKeys = dialect_keys(kRows);

/// Keys of a new model's sizes.
constexpr std::pair<const char*, const char*> kSizes[] = {
    {"n_layer", "model.layers"}, {"n_head", "model.heads"}, {"n_embd", "model.width"}, {"bias", "model.bias"}};

bool claims(const std::string& path, const std::vector<Setting>&) {
  return std::filesystem::path(path).extension() == ".py";
}

void translate_pretrained(const DialectView& view, Translation& out) {
  const std::string& name = view.text("init_from");
  const std::filesystem::path folder = std::filesystem::path(view.text("pretrained_dir")) / name;
  std::error_code unreadable;
  if (!view.native("model.init") && !hub::looks_like_name(folder.string()) &&
      !std::filesystem::exists(folder / "config.json", unreadable)) {
    return view.object(
        "init_from",
        fmt::format("{} does not exist; put config.json and model.safetensors of {} there, set --pretrained_dir to the "
                    "folder above it, or remove --pretrained_dir to fetch {} from the Hugging Face hub",
                    (folder / "config.json").string(), name, name));
  }
  out.set("model.init", folder.string(), view.latest({"init_from", "pretrained_dir"}));
  out.set("model.context", view.value("block_size"), view.origin("block_size"));
}

void translate_scratch(const DialectView& view, Translation& out) {
  out.set("model.init", "scratch", view.origin("init_from"));
  out.set("model.context", view.value("block_size"), view.origin("block_size"));
  out.set("model.activation", Activation::gelu_erf, view.origin("init_from"));
  for (const auto& [key, option] : kSizes) out.set(option, view.value(key), view.origin(key));
  const std::filesystem::path data = std::filesystem::path("data") / view.text("dataset");
  std::error_code unreadable;
  if (view.native("model.vocabulary") || view.native("data.dir") ||
      std::filesystem::exists(data / "meta.pkl", unreadable)) {
    return;
  }
  if (const auto vocabulary = bare_gpt2_vocabulary(data.string())) {
    out.set("model.vocabulary", *vocabulary, view.origin("dataset"));
  }
}

void translate_start(const DialectView& view, Translation& out) {
  const std::string& from = view.text("init_from");
  const Origin& origin = view.origin("init_from");
  if (from == "resume") {
    // The checkpoint defines its model: sizes that are given here must match it.
    out.set("checkpoint.resume", view.value("out_dir"), view.latest({"init_from", "out_dir"}));
    for (const auto& [key, option] : kSizes) {
      if (view.given(key)) out.set(option, view.value(key), view.origin(key));
    }
    return;
  }
  out.set("checkpoint.resume", "none", origin);
  from == "scratch" ? translate_scratch(view, out) : translate_pretrained(view, out);
}

void translate_device(const DialectView& view, Translation& out) {
  if (view.given("device"))
    out.set("run.device", device_named(view, "device"), view.origin("device"));
  else
    out.notes.push_back(
        "device is not given: using a GPU if one can be used, else the CPU (nanoGPT's default is cuda)");
  const std::string& dtype = view.text("dtype");
  if (dtype == "float16") {
    if (view.given("device") && device_named(view, "device") == DeviceChoice::cpu)
      return view.object("dtype", "training in float16 is not supported on CPUs; set float32 or bfloat16");
    return set_f16_of_torch(out, view.origin("dtype"));
  }
  out.set("precision.dtype", view.given("dtype") && dtype == "bfloat16" ? DType::bf16 : DType::f32,
          view.origin("dtype"));
}

void translate_batch(const DialectView& view, Translation& out) {
  constexpr int64_t kMost = int64_t{1} << 30;  // their product fits 64 bits
  bool good = view.within("eval_iters", 1);
  for (const char* key : {"batch_size", "gradient_accumulation_steps"}) good = view.within(key, 1, kMost) && good;
  if (!good) return;
  const int64_t accumulation = view.integer("gradient_accumulation_steps");
  if (!view.native("batch.per-rank")) {
    // A run that is resumed keeps its batch unless both numbers are given (train/start/setup.cc).
    const bool resumes = view.text("init_from") == "resume";
    const char* const missing = view.given("batch_size") ? "gradient_accumulation_steps" : "batch_size";
    out.set("batch.global", view.integer("batch_size") * accumulation,
            resumes && !(view.given("batch_size") && view.given("gradient_accumulation_steps"))
                ? view.origin(missing)
                : view.latest({"batch_size", "gradient_accumulation_steps"}));
  }
  out.set("evaluation.batches", (view.integer("eval_iters") - 1) / accumulation + 1,
          view.latest({"eval_iters", "gradient_accumulation_steps"}));
}

void translate(const DialectView& view, Translation& out) {
  translate_start(view, out);
  translate_device(view, out);
  translate_batch(view, out);
  set_schedule_of_nanogpt(out, view);
  out.set("data.dir", (std::filesystem::path("data") / view.text("dataset")).string(), view.origin("dataset"));
  if (view.given("seed")) out.set("run.seed", view.value("seed"), view.origin("seed"));
  view.within("eval_interval", 1);
  out.set("evaluation.every", view.value("eval_interval"), view.origin("eval_interval"));
  const bool always = view.flag("always_save_checkpoint");
  out.set("checkpoint.every", always ? view.integer("eval_interval") : 0,
          view.latest({"always_save_checkpoint", "eval_interval"}));
}

}  // namespace

const Dialect kNanogpt = {
    .name = "nanogpt",
    .help = "nanoGPT's --key=value flags and Python configuration files; recognised by the suffix .py",
    .keys = kKeys,
    .bare_overrides = false,
    .claims = claims,
    .translate = translate,
    .files_are_programs = true,
};

}  // namespace trireme
