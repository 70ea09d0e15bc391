// Dialect axolotl: the YAML files of axolotl 0.19 for fine-tuning on conversations and on pairs of answers.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "config/choices.h"
#include "config/trainer_keys.h"
#include "tensor/dtype.h"
#include "text/chat/loss_on.h"

namespace trireme {
namespace {

using enum DialectRow::Kind;

constexpr const char* kSpeed = "it changes speed and memory there";
constexpr const char* kQuantised = "bases of 8 or 4 bits are not supported; remove it, and set bf16: true";
constexpr const char* kLoader = "of its loader";
constexpr const char* kOtherKinds = "for kinds of training that are refused";
constexpr const char* kTrackers =
    "RUN/metrics.jsonl and TensorBoard files are always written; log.mlflow sends them to MLflow";
constexpr const char* kByMpi = "ranks and their connections come from MPI";

constexpr DialectRow kRows[] = {
    // The model
    {"base_model=", mapped, "model.init"},
    {"revision_of_model=", mapped, "model.init NAME@REVISION"},
    {"base_model_config=; cls_model_config=; tokenizer_config=; model_type=; type_of_model=; tokenizer_type=; "
     "processor_type=; processor_kwargs.*=; tokenizer_use_fast=; tokenizer_legacy=; tokenizer_save_jinja_files=; "
     "tokenizer_use_mistral_common=; trust_remote_code=; low_cpu_mem_usage=; is_falcon_derived_model=; "
     "is_llama_derived_model=; is_qwen_derived_model=; is_mistral_derived_model=; device_map=; device=; max_memory=; "
     "gpu_memory_limit=; experimental_skip_move_to_device=; strict=; hf_use_auth_token=; axolotl_config_path=; "
     "embeddings_skip_upcast=; lora_on_cpu=; merge_method=; is_preprocess=; preprocess_iterable=; max_prompt_len=; "
     "world_size=; local_rank=; plugins=; use_kernels=",
     no_effect, kLoader},
    {"overrides_of_model_config.*=; overrides_of_model_kwargs.*=; rope_scaling=", refused, "set model.* instead"},
    {"load_in_8bit=false; load_in_4bit=false", only, kQuantised},
    {"gptq=false", only, kQuantised},
    {"bnb_config_kwargs.*=; model_quantization_config=; model_quantization_config_kwargs.*=; quantization.*=; "
     "quantize_moe_experts=; qat.*=; fp8=; fp8_config.*=; fp8_enable_fsdp_float8_all_gather=",
     refused, kQuantised},
    {"resize_token_embeddings_to_32x=false; shrink_embeddings=false; mean_resizing_embeddings=false; "
     "fix_untrained_tokens=; reinit_weights=false",
     no_effect, "embeddings keep their size"},
    {"special_tokens.eos_token=; eos_token=", mapped, "chat.eos-token"},
    {"special_tokens.*=; added_tokens_overrides.*=", no_effect,
     "no padding is computed, and the tokenizer's own tokens are used"},
    {"tokens=; additional_special_tokens=", refused, "tokens cannot be added; the tokenizer's own can be used"},
    {"eot_tokens=", no_effect, "the token that ends most trained turns ends texts"},
    {"unfrozen_parameters", refused, "train.only PATTERNS"},
    // Adapters
    {"adapter=", mapped, "lora: lora.rank; qlora and others are refused; not given: all weights"},
    {"lora_model_dir=", mapped, "lora.adapter"},
    {"lora_r=8", mapped, "lora.rank"},
    {"lora_alpha=16", mapped, "lora.alpha"},
    {"lora_dropout=0.0", mapped, "lora.dropout"},
    {"lora_target_linear=false", mapped, "lora.targets all-linear"},
    {"lora_target_modules=", mapped, "lora.targets"},
    {"lora_modules_to_save=", mapped, "lora.modules-to-save"},
    {"peft_use_dora=false", same, "lora.dora"},
    {"peft_use_rslora=false", same, "lora.rslora"},
    {"lora_mlp_kernel=; lora_qkv_kernel=; lora_o_kernel=; lora_embedding_kernel=; lora_fan_in_fan_out=; "
     "peft_autocast_adapter_dtype=; merge_lora=; qlora_sharded_model_loading=",
     no_effect, kSpeed},
    {"lora_target_parameters; lora_rank_pattern.*=; lora_alpha_pattern.*=; peft_init_lora_weights=; "
     "peft_layers_to_transform; peft_layers_pattern; peft_trainable_token_indices; peft_layer_replication; "
     "peft_ensure_weight_tying=; loftq_config.*=; peft.*=; relora=; relora_prune_ratio=; relora_cpu_offload=; "
     "relora_prune_method=; lisa_n_layers=; lisa_step_interval=; lisa_layers_attribute=; loraplus_lr_ratio=; "
     "loraplus_lr_embedding=",
     refused, "lora.* has what adapters can be; remove it"},
    // Data
    {"datasets", mapped, "data.train, chat.columns and chat.roles"},
    {"test_datasets", mapped, "data.validation"},
    {"pretraining_dataset", refused, "`trireme prepare` and `trireme train`"},
    {"val_set_size=0.0", mapped, "chat.validation-share"},
    {"chat_template=tokenizer_default", mapped,
     "tokenizer_default: the model's own; jinja: chat_template_jinja; others are refused"},
    {"chat_template_jinja=", mapped, "chat.template"},
    {"chat_template_kwargs.*=", refused, "chat.template-options"},
    {"default_system_message=", no_effect, "a conversation has the message of the system that its row has"},
    {"sequence_len=512", mapped, "batch.sequence"},
    {"excess_length_strategy=drop", no_effect, "a long row loses its end; the log counts them"},
    {"sample_packing=false", mapped, "chat.packing"},
    {"train_on_inputs=false", mapped, "chat.loss-on: all; false: assistant"},
    {"eval_sample_packing=; pad_to_sequence_len=; pad_to_multiple_of=; sample_packing_group_size=; "
     "sample_packing_bin_size=; sample_packing_sequentially=; sample_packing_mp_start_method=; "
     "sample_packing_eff_est=; multipack_real_batches=; batch_flattening=; group_by_length=; total_num_tokens=; "
     "total_supervised_tokens=; min_sample_len=; eval_sequence_len=; max_packed_sequence_len=; "
     "pretrain_multipack_buffer_size=; pretrain_multipack_attn=; pretraining_sample_concatenation=",
     no_effect, "no padding is computed"},
    {"dataset_prepared_path=; dataset_processes=; dataset_num_proc=; dataset_keep_in_memory=; "
     "dataset_exact_deduplication=; dataset_shard_num=; dataset_shard_idx=; num_dataset_shards_to_save=; "
     "push_dataset_to_hub=; shuffle_merged_datasets=; shuffle_before_merging_datasets=; remove_unused_columns=; "
     "skip_prepare_dataset=; streaming=; streaming_multipack_buffer_size=; dataloader_pin_memory=; "
     "dataloader_num_workers=; dataloader_prefetch_factor=; accelerator_config=",
     no_effect, "conversations are tokenised once, kept, and shuffled in every epoch"},
    {"dataloader_drop_last=false; curriculum_sampling=false; use_pose=false", only, "it is not supported; remove it"},
    {"pose_split_on_token_ids; pose_max_context_len=; pose_num_chunks=", no_effect, "for use_pose"},
    // Batch, length, rate
    {"micro_batch_size=1", mapped, "batch.micro; times gradient_accumulation_steps: batch.per-rank"},
    {"gradient_accumulation_steps=1", mapped, "batch.per-rank = micro_batch_size x this"},
    {"batch_size=; auto_find_batch_size=; eval_batch_size=", no_effect, "micro_batch_size says it"},
    {"num_epochs=1.0", mapped, "chat.epochs"},
    {"max_steps=-1", mapped, "run.steps, if it is above 0"},
    {"learning_rate=0.0", same, "optim.learning-rate"},
    {"lr_scheduler=cosine", mapped, "optim.schedule"},
    {"lr_scheduler_kwargs.*=; cosine_min_lr_ratio=; cosine_constant_lr_ratio=; lr_div_factor=; lr_groups; "
     "embedding_lr=; embedding_lr_scale=; lr_quadratic_warmup=; jagged_restart_steps=; jagged_restart_warmup_steps=; "
     "jagged_restart_anneal_steps=",
     refused, "optim.min-learning-rate and the other options of optim.schedule"},
    {"warmup_steps=0", same, "optim.warmup-steps"},
    {"warmup_ratio=0.0", same, "optim.warmup-fraction"},
    {"optimizer=adamw_torch_fused", only, "the optimizer is AdamW: set adamw_torch", "AdamW; others are refused",
     "adamw_torch|adamw_torch_fused|adamw_hf"},
    {"qgalore_rank=; qgalore_update_proj_gap=; qgalore_scale=; qgalore_proj_type=; qgalore_proj_quant=; "
     "qgalore_proj_bits=; qgalore_proj_group_size=; qgalore_cos_threshold=; qgalore_gamma_proj=; qgalore_queue_size=; "
     "optim_args=; optim_target_modules=; adam_beta3=; adam_epsilon2=; dion_lr=; dion_momentum=; "
     "dion_rank_fraction=; dion_rank_multiple_of=",
     refused, "optim.* has the options of AdamW"},
    {"weight_decay=0.0", same, "optim.weight-decay"},
    {"adam_beta1=0.9", same, "optim.beta1"},
    {"adam_beta2=0.999", same, "optim.beta2"},
    {"adam_epsilon=1e-8", same, "optim.epsilon"},
    {"max_grad_norm=0.0", same, "optim.clip"},
    {"neftune_noise_alpha=; noisy_embedding_alpha=", refused, "noise in embeddings is not supported; remove it"},
    {"use_eaft=; eaft_alpha=; eaft_k=", refused, "the loss is the mean cross-entropy; remove it"},
    // Numbers and memory
    {"bf16=auto; bfloat16=", mapped, "precision.dtype: bf16 for true, full and auto; f32 for false"},
    {"fp16=false; float16=false", mapped, "precision.dtype: f16"},
    {"tf32=; float32=; fp32_norms=; fp32_norm_classes", no_effect, "sums are always in f32"},
    {"gradient_checkpointing=false; activation_checkpointing=false", mapped, "model.recompute: full; false: none"},
    {"gradient_checkpointing_kwargs.*=; selective_checkpointing.*=; recompute_layer_types=; gc_steps=; "
     "gc_collect_steps=; torch_empty_cache_steps=; activation_offloading=; layer_offloading=; flash_attention=; "
     "flash_attn_cross_entropy=; flash_attn_rms_norm=; flash_attn_fuse_mlp=; flash_attn_d512=; flash_optimum=; "
     "flex_attention=; flex_attn_compile_kwargs.*=; sdp_attention=; sdpa_varlen=; xformers_attention=; "
     "eager_attention=; sage_attention=; attn_implementation=; experts_implementation=; fused_attn_kernel=; "
     "unsloth_cross_entropy_loss=; liger_rope=; liger_rms_norm=; liger_glu_activation=; liger_layer_norm=; "
     "liger_fused_linear_cross_entropy=; cut_cross_entropy=; chunked_cross_entropy=; "
     "chunked_cross_entropy_num_chunks=; tiled_mlp=; tiled_mlp_num_shards=; tiled_mlp_use_original_mlp=; "
     "torch_compile=; torch_compile_backend=; torch_compile_mode=; torch_compile_options.*=; torchdistx_path=; "
     "large_head_attention=",
     no_effect, kSpeed},
    {"gemma4_hybrid_attn_impl=; ple_cpu_offload=; llama4_linearized_experts=", no_effect, kSpeed},
    {"use_onebitllms=false; scaling_softmax=false", only, "it is not supported; remove it"},
    {"scaling_softmax_bias=; scaling_softmax_factor=", no_effect, "for scaling_softmax"},
    {"role_boundaries", refused, "the template shows what the assistant says; mark it with {% generation %}"},
    {"s2_attention=false", only, "attention is always complete; remove it"},
    // Evaluations, snapshots, logs
    {"output_dir=model-out", mapped, "run.dir"},
    {"eval_strategy=; evaluation_strategy=", mapped,
     "no: no validation; steps: eval_steps; epoch: the steps of an epoch"},
    {"eval_steps=0.0", mapped, "evaluation.every"},
    {"evals_per_epoch=1", only, "set eval_steps to a number of steps", "1; others are refused"},
    {"saves_per_epoch=1", only, "set save_steps to a number of steps", "1; others are refused"},
    {"save_strategy=", mapped, "no, best: checkpoint.every 0; steps: save_steps; epoch: the steps of an epoch"},
    {"save_steps=0.0", mapped, "checkpoint.every"},
    {"save_total_limit=0", same, "checkpoint.keep"},
    {"save_safetensors=; save_only_model=; save_first_step=; load_best_model_at_end=; dynamic_checkpoint.*=; "
     "metric_for_best_model=; greater_is_better=",
     no_effect, "RUN/best is the snapshot with the lowest validation loss"},
    {"early_stopping_patience=0", mapped, "evaluation.patience"},
    {"resume_from_checkpoint=", mapped, "checkpoint.resume: true is auto"},
    {"auto_resume_from_checkpoints=", no_effect, "the same command resumes its run"},
    {"logging_steps=1", same, "log.every"},
    {"include_tokens_per_second=; include_tkps=; eval_table_size=; eval_max_new_tokens=; eval_causal_lm_metrics; "
     "do_causal_lm_eval=; do_bench_eval=; bench_dataset=; bench_split=; profiler_steps=; profiler_steps_start=; "
     "generate_samples=; num_generation_samples=; generation_max_new_tokens=; generation_temperature=; "
     "generation_top_p=; generation_top_k=; generation_prompt_ratio=; generation_do_sample=",
     no_effect, "`trireme sample` and `trireme report` show the result"},
    {"wandb_project=; wandb_entity=; wandb_watch=; wandb_name=; wandb_run_id=; wandb_log_model=; wandb_mode=; "
     "use_wandb=; use_mlflow=; mlflow_tracking_uri=; mlflow_experiment_name=; mlflow_run_name=; "
     "hf_mlflow_log_artifacts=; use_comet=; comet_api_key=; comet_workspace=; comet_project_name=; "
     "comet_experiment_key=; comet_mode=; comet_online=; comet_experiment_config.*=; use_tensorboard=; use_trackio=; "
     "trackio_project_name=; trackio_run_name=; trackio_space_id=; use_otel_metrics=; otel_metrics_host=; "
     "otel_metrics_port=; gradio_title=; gradio_share=; gradio_server_name=; gradio_server_port=; "
     "gradio_max_new_tokens=; gradio_temperature=",
     no_effect, kTrackers},
    {"loss_watchdog_threshold=; loss_watchdog_patience=", no_effect, "run.on-spike watches the loss"},
    {"hub_model_id=; hub_strategy=; hub_revision=", refused, "`trireme export` writes a folder that can be uploaded"},
    {"seed=42", same, "run.seed"},
    // Ranks
    {"ddp=; ddp_timeout=; ddp_bucket_cap_mb=; ddp_broadcast_buffers=; ddp_find_unused_parameters=; use_ray=; "
     "ray_run_name=; ray_num_workers=; resources_per_worker.*=; heads_k_stride=; ring_attn_func=",
     no_effect, kByMpi},
    {"deepspeed=; deepcompile=", refused, "optim.shard: optimizer, gradients or parameters, for ZeRO's stages 1 to 3"},
    {"fsdp; fsdp_config.*=; fsdp_version=; fsdp_final_state_dict_type=; dp_shard_size=; dp_replicate_size=", refused,
     "optim.shard parameters"},
    {"tensor_parallel_size=1", same, "mesh.tensor"},
    {"context_parallel_size=1; sequence_parallel_degree=1", only, "sequences are not divided among ranks; remove it"},
    // Pairs
    {"rl=", mapped, "dpo and ipo: dpo.loss, for `trireme dpo`; others are refused"},
    {"rl_beta=0.1; dpo_beta=0.1", mapped, "dpo.beta"},
    {"dpo_label_smoothing=0.0", same, "dpo.label-smoothing"},
    {"dpo_loss_type; dpo_loss_weights; dpo_use_weighting=; dpo_norm_loss=; rpo_alpha=", refused, "dpo.loss"},
    {"precompute_ref_log_probs=; dpo_use_liger_kernel=; dpo_padding_free=; dpo_use_logits_to_keep=; "
     "dpo_generate_during_eval=; max_prompt_length=",
     no_effect, "the reference is computed before the training"},
    {"orpo_alpha=; cpo_alpha=; simpo_gamma=; kto_desirable_weight=; kto_undesirable_weight=; trl.*=; vllm.*=; ebft.*=; "
     "reward_model=; process_reward_model=; center_rewards_coefficient=; num_labels=; trainer_cls=",
     refused, kOtherKinds},
    {"image_size=; image_resize_algorithm=; freeze_mm_modules=", no_effect, "for images"},
};

const std::vector<DialectKey> kKeys = dialect_keys(kRows);

bool claims(const std::string&, const std::vector<Setting>& settings) {
  const auto has = [&](std::string_view key) {
    return std::ranges::find(settings, key, &Setting::key) != settings.end();
  };
  return has("base_model") && (has("datasets") || has("micro_batch_size") || has("sequence_len"));
}

/// Lists, and values of several types, become texts.
void prepare(std::vector<Setting>& settings, std::vector<std::string>&) {
  constexpr std::string_view kNames[] = {"lora-target-modules", "lora-modules-to-save"};
  constexpr std::string_view kWords[] = {"bf16", "bfloat16", "resume-from-checkpoint"};
  for (Setting& setting : settings) {
    const std::string key = canonical(setting.key);
    const bool is_list = setting.problem == "a list";
    if (is_list && std::ranges::find(kNames, key) != std::end(kNames)) {
      std::erase_if(setting.text, [](char c) { return c == '[' || c == ']' || c == '"' || c == ' '; });
      setting.value = setting.text;
      setting.problem.clear();
    }
    if (std::ranges::find(kWords, key) != std::end(kWords) && setting.problem.empty()) setting.value = setting.text;
  }
}

/// The data sets of a list of {path, type, ...}.
struct Described {
  std::string files;
  std::map<std::string, std::string> columns, roles;
};

void add_set(const Json& one, Described& made) {
  const auto text = [&](const char* key) {
    return one.contains(key) && one.at(key).is_string() ? one.at(key).get<std::string>() : "";
  };
  require(one.is_object() && !text("path").empty(), ErrorKind::config, "a data set has no path");
  std::string file = text("path");
  if (const std::string files = text("data_files"); !files.empty()) file += "/" + files;
  const std::string split = text("split");
  require(split.empty() || split == "train", ErrorKind::config,
          "{}: the split \"{}\" is not supported; name its files in data_files", file, split);
  for (const char* key : {"shards", "name", "field_thinking", "message_field_training", "train_on_eos",
                          "message_field_training_detail", "roles_to_train", "train_on_eot"}) {
    const bool usual = !one.contains(key) || one.at(key).is_null() || one.at(key) == Json("turn") ||
                       one.at(key) == Json::array({"assistant"});
    require(usual, ErrorKind::config, "{}: \"{}\" is not supported; remove it, or use switches in the messages", file,
            key);
  }
  made.files += (made.files.empty() ? "" : ", ") + file;
  const auto map = [&](const std::string& column, const char* ours) {
    if (!column.empty() && column != ours) made.columns[ours] = column;
  };
  map(text("field_messages"), "messages");
  map(text("field_tools"), "tools");
  map(text("field_chosen"), "chosen");
  map(text("field_rejected"), "rejected");
  map(text("message_field_role"), "role");
  map(text("message_field_content"), "content");
  if (one.contains("message_property_mappings") && one.at("message_property_mappings").is_object()) {
    const Json& named = one.at("message_property_mappings");
    map(named.value("role", ""), "role");
    map(named.value("content", ""), "content");
  }
  if (!one.contains("roles") || !one.at("roles").is_object()) return;
  for (const auto& [role, words] : one.at("roles").items()) {
    for (const Json& word : words) {
      if (word.is_string() && word.get<std::string>() != role) made.roles[word.get<std::string>()] = role;
    }
  }
}

std::string joined(const std::map<std::string, std::string>& pairs) {
  std::string text;
  for (const auto& [name, value] : pairs) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
  return text;
}

void translate_data(const DialectView& view, Translation& out) {
  for (const auto& [key, option] : {std::pair("datasets", "data.train"), {"test_datasets", "data.validation"}}) {
    if (!view.given(key)) continue;
    try {
      Described sets;
      for (const Json& one : parse_json(view.setting(key).text, key)) add_set(one, sets);
      out.set(option, sets.files, view.origin(key));
      if (std::string_view(key) != "datasets") continue;
      if (!sets.columns.empty()) out.set("chat.columns", joined(sets.columns), view.origin(key));
      if (!sets.roles.empty()) out.set("chat.roles", joined(sets.roles), view.origin(key));
    } catch (const Error& error) {
      view.object(fmt::format("{}: {}", place(view.setting(key)), error.what()));
    }
  }
  if (!view.given("test_datasets")) {
    if (view.number("val_set_size") >= 1) return view.object("val_set_size", "expected a share of the rows, below 1");
    out.set("chat.validation-share", view.value("val_set_size"),
            view.given("val_set_size") ? view.origin("val_set_size") : whole_default());
  }
  const std::string& chat = view.text("chat_template");
  if (chat != "tokenizer_default" && chat != "jinja")
    view.object("chat_template",
                fmt::format("tokenizer_default takes the model's own template, and jinja that of chat_template_jinja; "
                            "axolotl's own \"{}\" can be given as a file",
                            chat));
  if (view.given("chat_template_jinja"))
    out.set("chat.template", view.value("chat_template_jinja"), view.origin("chat_template_jinja"));
}

void translate_adapter(const DialectView& view, Translation& out) {
  if (view.given("lora_model_dir"))
    return out.set("lora.adapter", view.value("lora_model_dir"), view.origin("lora_model_dir"));
  if (!view.given("adapter")) return;
  if (view.text("adapter") != "lora") return view.object("adapter", "only lora is supported; bases keep their numbers");
  const auto origin = [&](std::string_view key) { return view.given(key) ? view.origin(key) : whole_default(); };
  out.set("lora.rank", view.value("lora_r"), origin("lora_r"));
  out.set("lora.alpha", static_cast<double>(view.integer("lora_alpha")), origin("lora_alpha"));
  out.set("lora.dropout", view.value("lora_dropout"), origin("lora_dropout"));
  if (view.flag("lora_target_linear"))
    out.set("lora.targets", std::string("all-linear"), view.origin("lora_target_linear"));
  else if (view.given("lora_target_modules"))
    out.set("lora.targets", view.value("lora_target_modules"), view.origin("lora_target_modules"));
  if (view.given("lora_modules_to_save"))
    out.set("lora.modules-to-save", view.value("lora_modules_to_save"), view.origin("lora_modules_to_save"));
}

void translate_numbers(const DialectView& view, Translation& out) {
  const std::string_view half = given_of(view, "bf16", "bfloat16"), f16 = given_of(view, "fp16", "float16");
  const std::string& word = view.text(half);
  if (view.flag(f16)) {
    set_f16_of_torch(out, view.origin(f16));
  } else {
    const bool is_half = word == "true" || word == "True" || word == "full" || word == "auto";
    if (!is_half && word != "false" && word != "False") view.object(half, "expected true, false, full or auto");
    out.set("precision.dtype", is_half ? DType::bf16 : DType::f32,
            view.given(half) ? view.origin(half) : whole_default());
  }
  const std::string_view recompute = given_of(view, "gradient_checkpointing", "activation_checkpointing");
  if (view.given(recompute))
    out.set("model.recompute", view.flag(recompute) ? Recompute::full : Recompute::none, view.origin(recompute));
}

void translate_times(const DialectView& view, Translation& out) {
  for (const auto& [key, option] : {std::pair("eval_steps", "evaluation.every"), {"save_steps", "checkpoint.every"}}) {
    if (!view.given(key)) continue;
    const double steps = view.number(key);
    if (steps < 1)
      view.object(key, "expected a number of steps; a share of the steps is not supported");
    else
      out.set(option, static_cast<int64_t>(steps), view.origin(key));
  }
  const std::string& saves = view.text("save_strategy");
  if (saves == "no" || saves == "best") out.set("checkpoint.every", int64_t{0}, view.origin("save_strategy"));
  const std::string_view evaluates = given_of(view, "eval_strategy", "evaluation_strategy");
  if (view.text(evaluates) == "no") out.set("chat.validation-share", 0.0, view.origin(evaluates));
  if (view.given("early_stopping_patience"))
    out.set("evaluation.patience", view.value("early_stopping_patience"), view.origin("early_stopping_patience"));
  if (view.given("resume_from_checkpoint")) {
    const std::string& from = view.text("resume_from_checkpoint");
    out.set("checkpoint.resume", from == "true" ? std::string("auto") : from, view.origin("resume_from_checkpoint"));
  }
}

void translate_schedule(const DialectView& view, Translation& out) {
  constexpr const char* kType = "lr_scheduler";
  const auto course = course_of_transformers(view.text(kType));
  if (!course)
    return view.object(kType,
                       "expected cosine, linear, constant, constant_with_warmup, polynomial, inverse_sqrt or "
                       "cosine_with_restarts");
  out.set("optim.schedule", *course, view.given(kType) ? view.origin(kType) : whole_default());
}

void translate(const DialectView& view, Translation& out) {
  std::string name = view.text("base_model");
  if (view.given("revision_of_model")) name += "@" + view.text("revision_of_model");
  if (!name.empty()) out.set("model.init", name, view.origin("base_model"));
  const auto origin = [&](std::string_view key) { return view.given(key) ? view.origin(key) : whole_default(); };
  constexpr const char *kMicro = "micro_batch_size", *kAccumulation = "gradient_accumulation_steps";
  constexpr int64_t kMost = int64_t{1} << 20;
  if (view.within(kMicro, 1, kMost) && view.within(kAccumulation, 1, kMost)) {
    out.set("batch.micro", view.value(kMicro), origin(kMicro));
    if (!is_native(view, "batch.global"))
      out.set("batch.per-rank", view.integer(kMicro) * view.integer(kAccumulation),
              view.given(kAccumulation) ? view.origin(kAccumulation) : origin(kMicro));
  }
  out.set("chat.epochs", view.value("num_epochs"), origin("num_epochs"));
  if (view.integer("max_steps") > 0) out.set("run.steps", view.value("max_steps"), view.origin("max_steps"));
  out.set("run.dir", view.value("output_dir"), origin("output_dir"));
  if (view.given("sequence_len")) out.set("batch.sequence", view.value("sequence_len"), view.origin("sequence_len"));
  const std::string_view eos = given_of(view, "special_tokens.eos_token", "eos_token");
  if (view.given(eos)) out.set("chat.eos-token", view.value(eos), view.origin(eos));
  translate_adapter(view, out);
  translate_numbers(view, out);
  translate_schedule(view, out);
  translate_times(view, out);
  translate_data(view, out);
  if (view.given("rl")) {
    const std::string& rl = view.text("rl");
    if (rl != "dpo" && rl != "ipo") return view.object("rl", "expected dpo or ipo");
    out.set("dpo.loss", rl == "dpo" ? PairLoss::sigmoid : PairLoss::ipo, view.origin("rl"));
    const std::string_view beta = given_of(view, "rl_beta", "dpo_beta");
    if (view.given(beta)) out.set("dpo.beta", view.value(beta), view.origin(beta));
    return;
  }
  out.set("chat.packing", view.value("sample_packing"), origin("sample_packing"));
  if (view.flag("train_on_inputs")) out.set("chat.loss-on", chat::LossOn::all, view.origin("train_on_inputs"));
}

}  // namespace

const Dialect kAxolotl = {
    .name = "axolotl",
    .help = "YAML of axolotl for conversations and pairs; recognised by base_model with datasets or sequence_len",
    .keys = kKeys,
    .bare_overrides = false,
    .claims = claims,
    .translate = translate,
    .one_file_per_key = true,
    .prepare = prepare,
};

}  // namespace trireme
