// Dialect intel-nanogpt: the YAML of Intel's distributed nanoGPT fine-tuning guide, with the meaning of the keys in the
// guide: gradients are exchanged, max_iters is the number of optimizer steps, and the global batch is batch_size x
// gradient_accumulation_steps x ranks.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "config/choices.h"
#include "config/dialect.h"
#include "tensor/dtype.h"

namespace trireme {
namespace {

using enum DialectRow::Kind;

constexpr DialectRow kRows[] = {
    {"data_dir=./data/openwebtext", same, "data.dir"},
    {"block_size=1024", same, "batch.sequence", "batch.sequence; with model.init scratch also model.context"},
    {"optimizer_config.learning_rate=6e-4", no_effect,
     "the schedule sets the rate of every step from trainer_config.max_lr"},
    {"optimizer_config.weight_decay=0.1", same, "optim.weight-decay"},
    {"optimizer_config.beta1=0.9", same, "optim.beta1"},
    {"optimizer_config.beta2=0.95", same, "optim.beta2"},
    {"trainer_config.device=cpu", only, "expected cpu, cuda or cuda:0", "run.device: cpu, cuda or cuda:0",
     "cpu|cuda|cuda:0"},
    {"trainer_config.mixed_precision=bf16", mapped, "precision.dtype: bf16, or f32 for fp32; fp16 is refused"},
    {"trainer_config.eval_interval=5", mapped, "evaluation.every and checkpoint.every"},
    {"trainer_config.log_interval=1", same, "log.every"},
    {"trainer_config.eval_iters=2", mapped,
     "evaluation.batches: the same number of sequences, rounded up to global batches of one rank"},
    {"trainer_config.eval_only=false", same, "evaluation.only"},
    {"trainer_config.batch_size=32", same, "batch.micro",
     "batch.micro; times gradient_accumulation_steps: batch.per-rank"},
    {"trainer_config.max_iters=10", same, "run.steps", "run.steps: exactly this number of optimizer steps"},
    {"trainer_config.model_path=ckpt.pt", mapped,
     "checkpoint.best-link, without the suffix; an existing torch file is not changed"},
    {"trainer_config.snapshot_path=snapshot.pt", mapped,
     "run.dir, without the suffix; an existing torch file is not changed"},
    {"trainer_config.gradient_accumulation_steps=2", mapped, "batch.per-rank = batch_size x this"},
    {"trainer_config.grad_clip=1.0", same, "optim.clip"},
    {"trainer_config.decay_lr=true", mapped, "optim.schedule: cosine, or constant without warm-up"},
    {"trainer_config.warmup_iters=2", mapped, "optim.warmup-steps"},
    {"trainer_config.lr_decay_iters=10", mapped, "optim.decay-steps"},
    {"trainer_config.max_lr=6e-4", same, "optim.learning-rate"},
    {"trainer_config.min_lr=6e-5", mapped, "optim.min-learning-rate"},
    // Hydra's, through which the guide's program is configured
    {"hydra.job.chdir=false", only, "paths are relative to the working directory; set it to False",
     "False; True is refused: paths are relative to the working directory"},
    {"hydra.mode; hydra.sweep.*; hydra.sweeper.*; hydra.launcher.*", refused,
     "start a separate run for each set of values: sweeps are not supported"},
    {"hydra.*=", no_effect, "Hydra's logs and copies of the configuration; the run folder has both"},
};
const std::vector<DialectKey> kKeys = dialect_keys(kRows);

/// `snapshot_path: null` means the default, as if the key were not given.
void prepare(std::vector<Setting>& settings, std::vector<std::string>&) {
  std::erase_if(settings, [](const Setting& setting) {
    const bool none = setting.problem == "nothing" || setting.text == "null";
    return none && canonical(setting.key) == "trainer-config.snapshot-path";
  });
}

bool claims(const std::string&, const std::vector<Setting>& settings) {
  return std::any_of(settings.begin(), settings.end(), [](const Setting& setting) {
    return setting.key.starts_with("trainer_config.") || setting.key.starts_with("optimizer_config.");
  });
}

void translate_start(const DialectView& view, Translation& out) {
  const Setting* init = view.native("model.init");
  if (init == nullptr || init->text.empty())
    return view.object(
        "an intel-nanogpt file does not say which weights to fine-tune: add --model.init DIR with the folder of a "
        "Hugging Face model (config.json and model.safetensors, such as gpt2), or --model.init scratch");
  if (init->text != "scratch") {
    if (!init->text.ends_with(".pt"))
      out.notes.emplace_back(
          "GELU is the one that the model's config.json names (of gpt2 the tanh form); the guide's script computes the "
          "exact one, so its losses differ slightly");
    return;
  }
  out.set("model.context", view.value("block_size"), view.origin("block_size"));
  if (const auto vocabulary = bare_gpt2_vocabulary(view.text("data_dir"))) {
    out.set("model.vocabulary", *vocabulary, view.origin("data_dir"));
  }
}

void translate_precision(const DialectView& view, Translation& out) {
  constexpr const char* kDevice = "trainer_config.device";
  constexpr const char* kPrecision = "trainer_config.mixed_precision";
  out.set("run.device", device_named(view, kDevice), view.origin(kDevice));
  const std::string& precision = view.text(kPrecision);
  if (precision != "bf16" && precision != "fp32")
    return view.object(kPrecision, precision == "fp16" ? "training in fp16 is not supported on CPUs; set bf16 or fp32"
                                                       : "expected bf16 or fp32");
  out.set("precision.dtype", precision == "bf16" ? DType::bf16 : DType::f32, view.origin(kPrecision));
}

void translate_batch(const DialectView& view, Translation& out) {
  constexpr const char* kBatch = "trainer_config.batch_size";
  constexpr const char* kAccumulation = "trainer_config.gradient_accumulation_steps";
  constexpr const char* kEvaluation = "trainer_config.eval_iters";
  constexpr int64_t kMost = int64_t{1} << 30;  // their product fits 64 bits
  view.within("block_size", 1);
  bool good = view.within(kEvaluation, 1);
  for (const char* key : {kBatch, kAccumulation}) good = view.within(key, 1, kMost) && good;
  if (!good) return;
  const int64_t accumulation = view.integer(kAccumulation);
  if (accumulation > 1) {
    constexpr const char* kSteps = "trainer_config.max_iters";
    const int64_t each = view.integer(kBatch), steps = view.integer(kSteps);
    const double there = static_cast<double>(each) * static_cast<double>(steps);
    out.notes.push_back(fmt::format(
        "{}: a step accumulates {} x {} samples per rank, so {} steps take {:.0f}; the guide's script counts each "
        "micro-batch as an iteration and takes {:.0f}",
        kAccumulation, accumulation, each, steps, static_cast<double>(accumulation) * there, there));
  }
  if (!view.native("batch.global")) {
    out.set("batch.per-rank", view.integer(kBatch) * accumulation, view.latest({kBatch, kAccumulation}));
  }
  out.set("evaluation.batches", (view.integer(kEvaluation) - 1) / accumulation + 1,
          view.latest({kEvaluation, kAccumulation}));
}

/// The folder used instead of a torch file: its path without suffix.
std::string folder_for(const DialectView& view, const char* key, Translation& out) {
  const std::string& path = view.text(key);
  if (path.find("://") != std::string::npos)
    view.object(key, "only local and mounted paths are supported; name a folder");
  const std::filesystem::path folder = std::filesystem::path(path).replace_extension();
  if (folder.filename().empty()) view.object(key, "expected a file name such as snapshot.pt");
  std::error_code unreadable;
  if (std::filesystem::is_regular_file(folder, unreadable)) {
    view.object(
        key, fmt::format("{} is an existing file, which is never overwritten; choose another name", folder.string()));
  }
  if (folder != path && std::filesystem::is_regular_file(path, unreadable)) {
    out.notes.push_back(fmt::format("{}: {} is a torch file, which is neither read nor overwritten; using {} instead",
                                    view.origin(key).text(), path, folder.string()));
  }
  return folder.string();
}

void translate_outputs(const DialectView& view, Translation& out) {
  constexpr const char* kModel = "trainer_config.model_path";
  constexpr const char* kSnapshot = "trainer_config.snapshot_path";
  constexpr const char* kInterval = "trainer_config.eval_interval";
  const std::string run = folder_for(view, kSnapshot, out), best = folder_for(view, kModel, out);
  if (run == best && !run.empty()) {
    view.object(kModel,
                fmt::format("without suffix it names the same folder as {}; choose different names", kSnapshot));
  }
  out.set("run.dir", run, view.origin(kSnapshot));
  out.set("checkpoint.best-link", best, view.origin(kModel));
  view.within(kInterval, 1);
  for (const char* option : {"evaluation.every", "checkpoint.every"}) {
    out.set(option, view.value(kInterval), view.origin(kInterval));
  }
}

void translate(const DialectView& view, Translation& out) {
  translate_start(view, out);
  translate_precision(view, out);
  translate_batch(view, out);
  set_schedule_of_nanogpt(out, view, "trainer_config.");
  translate_outputs(view, out);
}

}  // namespace

const Dialect kIntelNanogpt = {
    .name = "intel-nanogpt",
    .help = "YAML of Intel's distributed nanoGPT fine-tuning guide; recognised by trainer_config and optimizer_config",
    .keys = kKeys,
    .bare_overrides = true,
    .claims = claims,
    .translate = translate,
    .prepare = prepare,
};

}  // namespace trireme
