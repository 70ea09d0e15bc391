// The fields of transformers' TrainingArguments, which TRL's configurations and LLaMA-Factory's files extend.

#include "config/trainer_keys.h"

#include <algorithm>
#include <cmath>

#include "config/choices.h"
#include "tensor/dtype.h"

namespace trireme {
namespace {

using enum DialectRow::Kind;

constexpr const char* kCompiled = "kernels are compiled ahead of time";
constexpr const char* kByMpi = "ranks and their connections come from MPI";
constexpr const char* kOfHub = "for push_to_hub";
constexpr const char* kOfTorch = "torch is not used";
constexpr const char* kLogs =
    "the log, RUN/metrics.jsonl and TensorBoard files are always written; log.mlflow sends them to MLflow";

constexpr DialectRow kRows[] = {
    // Batch, length, rate
    {"per_device_train_batch_size=8", mapped, "batch.micro; times gradient_accumulation_steps: batch.per-rank"},
    {"gradient_accumulation_steps=1", mapped, "batch.per-rank = per_device_train_batch_size x this"},
    {"per_device_eval_batch_size=8; eval_accumulation_steps=0; auto_find_batch_size=false", no_effect,
     "an evaluation takes the rows of training's micro-batches"},
    {"num_train_epochs=3.0", same, "chat.epochs"},
    {"max_steps=-1", mapped, "run.steps, if it is above 0"},
    {"learning_rate=2e-5", same, "optim.learning-rate"},
    {"lr_scheduler_type=linear", mapped, "optim.schedule", nullptr, nullptr},
    {"lr_scheduler_kwargs=", refused, "optim.min-learning-rate, optim.decay-power, optim.restarts, optim.decay-length"},
    {"warmup_steps=0.0", mapped, "optim.warmup-steps; below 1: optim.warmup-fraction"},
    {"warmup_ratio=0.0", same, "optim.warmup-fraction"},
    {"optim=adamw_torch_fused", only, "the optimizer is AdamW; remove it", "AdamW; others are refused",
     "adamw_torch|adamw_torch_fused|adamw_hf"},
    {"optim_args=; optim_target_modules=", refused, "optim.* has the options of AdamW"},
    {"weight_decay=0.0", same, "optim.weight-decay"},
    {"adam_beta1=0.9", same, "optim.beta1"},
    {"adam_beta2=0.999", same, "optim.beta2"},
    {"adam_epsilon=1e-8", same, "optim.epsilon"},
    {"max_grad_norm=1.0", same, "optim.clip"},
    {"average_tokens_across_devices=true", only, "the loss is the mean over the counted ids of all ranks; remove it"},
    // Numbers and memory
    {"bf16=true", mapped, "precision.dtype: bf16; false: f32"},
    {"fp16=false", mapped, "precision.dtype: f16"},
    {"bf16_full_eval=false; fp16_full_eval=false; tf32=", no_effect, "evaluations compute as the training"},
    {"gradient_checkpointing=true; activation_checkpointing=true", mapped, "model.recompute: full; false: none"},
    {"gradient_checkpointing_kwargs=; activation_checkpointing_kwargs=; use_cache=false; torch_empty_cache_steps=",
     no_effect, kOfTorch},
    {"activation_offloading=false", only, "activations stay where they are computed; use --model.recompute full"},
    {"torch_compile=false; torch_compile_backend=; torch_compile_mode=; use_liger_kernel=false; liger_kernel_config=",
     no_effect, kCompiled},
    // Evaluations, snapshots, logs
    {"output_dir=", same, "run.dir"},
    {"overwrite_output_dir=false", no_effect, "a run folder is resumed, or --run.overwrite true starts it again"},
    {"eval_strategy=no; evaluation_strategy=no", mapped,
     "evaluation.every; no: no validation, unless --validation is given"},
    {"eval_steps=0.0", mapped, "evaluation.every"},
    {"eval_on_start=false; do_train=false; do_eval=false; do_predict=false", no_effect,
     "training begins and ends with an evaluation"},
    {"eval_delay=0.0", only, "evaluations begin at step 0; remove it"},
    {"prediction_loss_only=false; include_for_metrics; batch_eval_metrics=false; eval_do_concat_batches=true; "
     "eval_use_gather_object=false; label_names; length_column_name=length; remove_unused_columns=true; "
     "include_num_input_tokens_seen=no; skip_memory_metrics=true; debug=",
     no_effect, "of transformers' Trainer alone"},
    {"save_strategy=steps", mapped, "checkpoint.every: no, best: 0; epoch: the steps of an epoch; steps: save_steps"},
    {"save_steps=500.0", mapped, "checkpoint.every"},
    {"save_total_limit=0", same, "checkpoint.keep"},
    {"save_only_model=false; save_on_each_node=false; enable_jit_checkpoint=false", no_effect,
     "snapshots have all that a resume needs"},
    {"load_best_model_at_end=false", no_effect, "RUN/best is the snapshot with the lowest validation loss"},
    {"metric_for_best_model=loss", only, "the best snapshot has the lowest validation loss; remove it",
     "loss, eval_loss; others are refused", "loss|eval_loss"},
    {"greater_is_better=false", only, "the best snapshot has the lowest validation loss; remove it"},
    {"resume_from_checkpoint=", mapped, "checkpoint.resume: true is auto"},
    {"ignore_data_skip=false", only, "a resumed run continues with the next rows; remove it"},
    {"restore_callback_states_from_checkpoint=false", no_effect, "Trireme has no callbacks"},
    {"logging_strategy=steps", only, "a line is printed every log.every steps; remove it"},
    {"logging_steps=10.0", mapped, "log.every"},
    {"logging_first_step=false; logging_nan_inf_filter=true; log_on_each_node=true; log_level=passive; "
     "log_level_replica=warning; disable_tqdm=; report_to=; run_name=; project=; trackio_space_id=; "
     "trackio_bucket_id=; "
     "trackio_static_space_id=; logging_dir=",
     no_effect, kLogs},
    {"push_to_hub=false", only, "`trireme export` writes a folder that can be uploaded"},
    {"hub_token=; hub_private_repo=; hub_model_id=; hub_strategy=every_save; hub_always_push=false; hub_revision=",
     no_effect, kOfHub},
    // Ranks and data loaders
    {"seed=42", same, "run.seed"},
    {"data_seed=", refused, "run.seed is the one seed"},
    {"full_determinism=false", no_effect, "results are always the same bits"},
    {"use_cpu=false; no_cuda=false", mapped, "run.device: true: cpu"},
    {"local_rank=-1; ddp_find_unused_parameters=; ddp_bucket_cap_mb=; ddp_broadcast_buffers=; ddp_static_graph=; "
     "ddp_backend=; ddp_timeout=1800; accelerator_config=",
     no_effect, kByMpi},
    {"fsdp=; fsdp_config=", refused, "--optim.shard parameters"},
    {"deepspeed=", refused, "--optim.shard optimizer, gradients or parameters, for ZeRO's stages 1 to 3"},
    {"parallelism_config=", refused, "--mesh.tensor N, --mesh.pipeline N"},
    {"dataloader_drop_last=false", only, "every row is trained on; remove it"},
    {"dataloader_num_workers=0; dataloader_pin_memory=true; dataloader_persistent_workers=false; "
     "dataloader_prefetch_factor=; dataloader_multiprocessing_context=; dataloader_in_order=true",
     no_effect, "rows are in memory"},
    {"group_by_length=false", no_effect, "no padding is computed"},
    {"train_sampling_strategy=random", only, "the rows of every epoch are shuffled; remove it",
     "random, group_by_length; others are refused", "random|group_by_length"},
    {"label_smoothing_factor=0.0", only, "smoothed labels of tokens are not supported; remove it"},
    {"neftune_noise_alpha=", refused, "noise in embeddings is not supported; remove it"},
    {"trust_remote_code=false", no_effect, "no code of a model is run"},
    {"config=", refused, "the file's name alone: `trireme sft FILE.yaml`"},
};

std::optional<int64_t> steps_of(const DialectView& view, std::string_view key) {
  const double steps = view.number(key);
  if (steps >= 1 && steps == std::floor(steps)) return static_cast<int64_t>(steps);
  view.object(key, "expected a number of steps; a share of the steps is not supported");
  return std::nullopt;
}

void translate_batch(const DialectView& view, bool whole, Translation& out) {
  constexpr const char *kBatch = "per_device_train_batch_size", *kAccumulation = "gradient_accumulation_steps";
  constexpr int64_t kMost = int64_t{1} << 20;
  const bool good = view.within(kBatch, 1, kMost) && view.within(kAccumulation, 1, kMost);
  if (good && (whole || view.given(kBatch) || view.given(kAccumulation))) {
    const Origin& given = view.latest({kBatch, kAccumulation});
    const Origin origin = given.layer == kDefaultLayer ? whole_default() : given;
    if (!is_native(view, "batch.global"))
      out.set("batch.per-rank", view.integer(kBatch) * view.integer(kAccumulation), origin);
    if (whole || view.given(kBatch)) out.set("batch.micro", view.value(kBatch), origin);
  }
  if (view.given("max_steps") && view.integer("max_steps") > 0)
    out.set("run.steps", view.value("max_steps"), view.origin("max_steps"));
}

void translate_schedule(const DialectView& view, bool whole, Translation& out) {
  constexpr const char *kType = "lr_scheduler_type", *kWarmup = "warmup_steps";
  if (whole || view.given(kType)) {
    if (const auto course = course_of_transformers(view.text(kType)))
      out.set("optim.schedule", *course, view.given(kType) ? view.origin(kType) : whole_default());
    else
      view.object(kType,
                  "expected linear, cosine, constant, constant_with_warmup, polynomial, inverse_sqrt, "
                  "cosine_with_restarts or warmup_stable_decay");
  }
  if (view.given("warmup_ratio") || (!whole && !view.given(kWarmup))) return;
  const double warmup = view.number(kWarmup);
  const Origin origin = view.given(kWarmup) ? view.origin(kWarmup) : whole_default();
  if (warmup > 0 && warmup < 1)
    out.set("optim.warmup-fraction", warmup, origin);
  else
    out.set("optim.warmup-steps", static_cast<int64_t>(warmup), origin);
}

void translate_times(const DialectView& view, bool whole, Translation& out) {
  const std::string_view strategy = given_of(view, "eval_strategy", "evaluation_strategy");
  const bool steps = view.text(strategy) == "steps" || (!view.given(strategy) && view.given("eval_steps"));
  if (steps) {
    const std::string_view every = view.given("eval_steps") ? "eval_steps" : "logging_steps";
    const Origin& origin = view.given(every) ? view.origin(every) : view.origin(strategy);
    if (const auto count = steps_of(view, every)) out.set("evaluation.every", *count, origin);
  } else if (view.text(strategy) == "no" && (whole || view.given(strategy))) {
    const Origin origin = view.given(strategy) ? view.origin(strategy) : whole_default();
    if (!is_native(view, "data.validation") && !is_native(view, "chat.validation-share"))
      out.set("chat.validation-share", 0.0, origin);
  } else if (view.text(strategy) != "epoch" && view.text(strategy) != "no") {
    view.object(strategy, "expected no, steps or epoch");
  }
  const std::string& saves = view.text("save_strategy");
  const Origin saved = view.given("save_strategy") ? view.origin("save_strategy") : whole_default();
  if (saves == "no" || saves == "best") {
    out.set("checkpoint.every", int64_t{0}, saved);
  } else if (saves == "steps" && (whole || view.given("save_steps") || view.given("save_strategy"))) {
    if (const auto count = steps_of(view, "save_steps"))
      out.set("checkpoint.every", *count, view.given("save_steps") ? view.origin("save_steps") : saved);
  } else if (saves != "epoch" && saves != "steps") {
    view.object("save_strategy", "expected no, steps, epoch or best");
  }
  if (view.given("logging_steps")) {
    if (const auto count = steps_of(view, "logging_steps")) out.set("log.every", *count, view.origin("logging_steps"));
  }
  if (view.given("resume_from_checkpoint")) {
    const Setting& from = view.setting("resume_from_checkpoint");
    const bool is_true = from.text == "true" || from.text == "True";
    out.set("checkpoint.resume", is_true ? std::string("auto") : from.text, from.origin);
  }
}

void translate_numbers(const DialectView& view, bool whole, Translation& out) {
  if (view.flag("fp16")) {
    set_f16_of_torch(out, view.origin("fp16"));
  } else if (view.given("bf16") || whole) {
    out.set("precision.dtype", view.flag("bf16") ? DType::bf16 : DType::f32,
            view.given("bf16") ? view.origin("bf16") : whole_default());
  }
  const std::string_view recompute = given_of(view, "gradient_checkpointing", "activation_checkpointing");
  if (view.given(recompute) || whole)
    out.set("model.recompute", view.flag(recompute) ? Recompute::full : Recompute::none,
            view.given(recompute) ? view.origin(recompute) : whole_default());
  if (view.flag(given_of(view, "use_cpu", "no_cuda")))
    out.set("run.device", DeviceChoice::cpu, view.origin(given_of(view, "use_cpu", "no_cuda")));
}

}  // namespace

std::span<const DialectRow> trainer_rows() { return kRows; }

std::optional<RateCourse> course_of_transformers(std::string_view name) {
  constexpr std::pair<std::string_view, RateCourse> kCourses[] = {
      {"linear", RateCourse::linear},
      {"cosine", RateCourse::cosine},
      {"constant", RateCourse::constant},
      {"constant_with_warmup", RateCourse::constant},
      {"polynomial", RateCourse::polynomial},
      {"inverse_sqrt", RateCourse::inverse_sqrt},
      {"cosine_with_restarts", RateCourse::cosine_with_restarts},
      {"warmup_stable_decay", RateCourse::stable_decay}};
  const auto course = std::ranges::find(kCourses, name, [](const auto& one) { return one.first; });
  return course == std::end(kCourses) ? std::nullopt : std::optional(course->second);
}

bool is_native(const DialectView& view, std::string_view option) {
  const Setting* const given = view.native(option);
  return given != nullptr && given->origin.layer != kDefaultLayer;
}

Origin whole_default() { return {"default of TrainingArguments", 0, 0}; }

std::string_view given_of(const DialectView& view, std::string_view key, std::string_view older) {
  return !view.given(key) && view.given(older) ? older : key;
}

void prepare_trainer(std::vector<Setting>& settings) {
  for (Setting& setting : settings) {
    if (canonical(setting.key) == "resume-from-checkpoint" && setting.problem.empty()) setting.value = setting.text;
  }
}

void translate_trainer(const DialectView& view, bool whole, Translation& out) {
  translate_numbers(view, whole, out);
  translate_batch(view, whole, out);
  translate_schedule(view, whole, out);
  translate_times(view, whole, out);
  if (whole && !view.given("seed")) out.set("run.seed", int64_t{42}, whole_default());
  if (whole && !view.given("weight_decay")) out.set("optim.weight-decay", 0.0, whole_default());
}

}  // namespace trireme
