// Dialect llama-factory: the YAML files of LLaMA-Factory 0.9 for the stages sft and dpo. Data sets are looked up in
// dataset_info.json, as there.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "config/choices.h"
#include "config/trainer_keys.h"
#include "tensor/dtype.h"
#include "text/chat/loss_on.h"

namespace trireme {
namespace {

using enum DialectRow::Kind;

constexpr const char* kQuantised = "bases of 8 or 4 bits are not supported; remove it, and set bf16: true";
constexpr const char* kOptimizer = "the optimizer is AdamW; remove it";
constexpr const char* kOtherStages = "for the stages rm, ppo and kto, and losses that are not supported";
constexpr const char* kOtherEngines = "for generating text and exporting: `trireme sample`, `trireme export`";
constexpr const char* kSpeed = "it changes speed and memory there";
constexpr const char* kImages = "for images, video and sound";
constexpr const char* kModelPart = "for parts that the models here do not have";

constexpr DialectRow kRows[] = {
    // The model
    {"model_name_or_path=", mapped, "model.init"},
    {"model_revision=main", mapped, "model.init NAME@REVISION"},
    {"adapter_name_or_path=", mapped, "lora.adapter"},
    {"adapter_folder=; cache_dir=; use_fast_tokenizer=true; low_cpu_mem_usage=true; offload_folder=; device_map=; "
     "hf_hub_token=; ms_hub_token=; om_hub_token=; print_param_status=false; compute_dtype=; model_max_length=; "
     "block_diag_attn=",
     no_effect, "of its loader"},
    {"flash_attn=auto; use_unsloth=false; use_unsloth_gc=false; enable_liger_kernel=false; use_reentrant_gc=true; "
     "use_v1_kernels=; use_kv_cache=true; upcast_layernorm=false; upcast_lmhead_output=false",
     no_effect, kSpeed},
    {"disable_gradient_checkpointing=false", mapped, "model.recompute: none; false: full"},
    {"resize_vocab=false; train_from_scratch=false; split_special_tokens=false; shift_attn=false", only,
     "it is not supported; remove it"},
    {"add_tokens=; add_special_tokens=; new_special_tokens_config=", refused,
     "the model's own tokens are used; name one of them with --eos-token"},
    {"init_special_tokens=noise_init", no_effect, "for add_special_tokens"},
    {"rope_scaling=", refused, "model.rotary-scaling and its companions"},
    {"mixture_of_depths=", refused, "it is not supported; remove it"},
    {"moe_aux_loss_coef=", no_effect, "the model's own files have it"},
    {"quantization_bit=; quantization_method=bnb", refused, kQuantised},
    {"quantization_type=nf4; double_quantization=true; quantization_device_map=", no_effect, "for quantization_bit"},
    // What is trained
    {"stage=sft", mapped, "sft: `trireme sft`; dpo: `trireme dpo`; others are refused"},
    {"finetuning_type=lora", mapped, "lora: lora.rank; full: all weights; others are refused"},
    {"lora_rank=8", mapped, "lora.rank"},
    {"lora_alpha=0", mapped, "lora.alpha; not given: 2 x lora_rank"},
    {"lora_dropout=0.0", mapped, "lora.dropout"},
    {"lora_target=all", mapped, "lora.targets; all: all-linear"},
    {"additional_target=", mapped, "lora.modules-to-save"},
    {"use_rslora=false", same, "lora.rslora"},
    {"use_dora=false", same, "lora.dora"},
    {"loraplus_lr_ratio=", refused, "one learning rate is supported; remove it"},
    {"loraplus_lr_embedding=1e-6", no_effect, "for loraplus_lr_ratio"},
    {"pissa_init=false; create_new_adapter=false; use_llama_pro=false", only, "it is not supported; remove it"},
    {"pissa_iter=16; pissa_convert=false; module_dropout=0.0; oft_rank=0; oft_block_size=32; oft_target=all; "
     "freeze_trainable_layers=2; freeze_trainable_modules=all; freeze_extra_modules=",
     no_effect, "for other kinds of fine-tuning"},
    {"use_galore=false; use_apollo=false; use_badam=false; use_adam_mini=false; use_muon=false; use_mca=false; "
     "use_hyper_parallel=false; use_kt=false",
     only, kOptimizer},
    {"galore_target=; galore_rank=0; galore_update_interval=0; galore_scale=0; galore_proj_type=; galore_layerwise=; "
     "apollo_target=; apollo_rank=0; apollo_update_interval=0; apollo_scale=0; apollo_proj=; apollo_proj_type=; "
     "apollo_scale_type=; apollo_layerwise=; apollo_scale_front=; badam_mode=; badam_start_block=; "
     "badam_switch_mode=; badam_switch_interval=; badam_update_ratio=; badam_mask_mode=; badam_verbose=; "
     "hyper_parallel_args=; kt_weight_path=; kt_expert_checkpoint_path=; kt_use_lora_experts=; kt_lora_expert_num=; "
     "kt_lora_expert_intermediate_size=",
     no_effect, "for optimizers and engines that are refused"},
    {"pure_bf16=false", only, "weights have f32 copies for the optimizer; remove it, and set bf16: true"},
    {"use_dft_loss=false; use_asft_loss=false; use_eaft_loss=false", only,
     "the loss is the mean cross-entropy; remove it"},
    {"asft_alpha=; eaft_alpha=", no_effect, "for losses that are refused"},
    {"pref_beta=0.1", same, "dpo.beta"},
    {"pref_loss=sigmoid", mapped, "dpo.loss: sigmoid, hinge, ipo; others are refused"},
    {"dpo_label_smoothing=0.0", same, "dpo.label-smoothing"},
    {"pref_ftx=0.0", only, "a loss of the chosen answers beside that of pairs is not supported; remove it"},
    {"ref_model=; ref_model_adapters=; ref_model_quantization_bit=", refused,
     "the model that the training starts from is the reference; remove it"},
    {"pref_bco_weight=0; kto_chosen_weight=1; kto_rejected_weight=1; simpo_gamma=0.5; ppo_buffer_size=1; ppo_epochs=4; "
     "ppo_score_norm=false; ppo_target=6; ppo_whiten_rewards=false; reward_model=; reward_model_adapters=; "
     "reward_model_quantization_bit=; reward_model_type=; ld_alpha=",
     no_effect, kOtherStages},
    {"freeze_vision_tower=true; freeze_multi_modal_projector=true; freeze_language_model=false", no_effect, kModelPart},
    {"compute_accuracy=false; plot_loss=false; include_effective_tokens_per_second=false", no_effect,
     "`trireme report RUN` shows the curves"},
    {"disable_shuffling=false", only, "the rows of every epoch are shuffled; remove it"},
    {"early_stopping_steps=0", mapped, "evaluation.patience"},
    {"use_swanlab=false; swanlab_project=; swanlab_workspace=; swanlab_run_name=; swanlab_mode=; swanlab_api_key=; "
     "swanlab_logdir=; swanlab_lark_webhook_url=; swanlab_lark_secret=",
     no_effect, "RUN/metrics.jsonl and TensorBoard files are always written; log.mlflow sends them to MLflow"},
    // Data
    {"dataset=", mapped,
     "data.train, chat.columns and chat.roles, by dataset_info.json; without it files or names of the hub"},
    {"eval_dataset=", mapped, "data.validation, likewise"},
    {"dataset_dir=data", mapped, "the folder of dataset_info.json and its files"},
    {"template=", no_effect, "the model's own chat template is used; --chat-template FILE takes another one"},
    {"tool_format=; default_system=; media_dir=; data_shared_file_system=false; tokenized_path=; "
     "overwrite_cache=false; "
     "preprocessing_batch_size=1000; preprocessing_num_workers=0; streaming=false; buffer_size=16384; "
     "ignore_pad_token_for_loss=true; eval_num_beams=0; eval_on_each_dataset=false",
     no_effect, "conversations are tokenised once, and kept"},
    {"cutoff_len=2048", mapped, "batch.sequence"},
    {"train_on_prompt=false", mapped, "chat.loss-on: all; false: assistant"},
    {"mask_history=false", mapped, "chat.loss-on: last"},
    {"mix_strategy=concat", only, "rows of all files are shuffled together; remove it"},
    {"interleave_probs=", refused, "--data FILE=WEIGHT for each file"},
    {"max_samples=0", mapped, "data.train FILE=N: the first N rows of each data set"},
    {"val_size=0.0", mapped, "chat.validation-share"},
    {"packing=false; neat_packing=false", mapped, "chat.packing"},
    {"enable_thinking=true", mapped, "chat.template-options"},
    {"preserve_thinking=false", no_effect, "every turn that is trained on keeps its reasoning"},
    {"image_max_pixels=0; image_min_pixels=0; image_do_pan_and_scan=false; crop_to_patches=false; video_max_pixels=0; "
     "video_min_pixels=0; video_fps=2.0; video_maxlen=128; use_audio_in_video=false; audio_sampling_rate=16000",
     no_effect, kImages},
    {"infer_backend=; infer_dtype=; export_dir=; export_size=0; export_device=; export_quantization_bit=; "
     "export_quantization_dataset=; export_quantization_nsamples=; export_quantization_maxlen=; "
     "export_legacy_format=; export_hub_model_id=; vllm_maxlen=; vllm_gpu_util=; vllm_enforce_eager=; "
     "vllm_max_lora_rank=; vllm_config=; sglang_maxlen=; sglang_mem_fraction=; sglang_tp_size=; sglang_config=; "
     "sglang_lora_backend=; predict_with_generate=false; generation_max_length=; generation_num_beams=; do_sample=; "
     "temperature=; top_p=; top_k=; num_beams=; max_length=; max_new_tokens=; repetition_penalty=; length_penalty=; "
     "skip_special_tokens=",
     no_effect, kOtherEngines},
};

std::vector<DialectKey> all_keys() {
  std::vector<DialectKey> keys = dialect_keys(kRows);
  std::ranges::move(dialect_keys(trainer_rows()), std::back_inserter(keys));
  return keys;
}
const std::vector<DialectKey> kKeys = all_keys();

bool claims(const std::string&, const std::vector<Setting>& settings) {
  const auto has = [&](std::string_view key) {
    return std::ranges::find(settings, key, &Setting::key) != settings.end();
  };
  return has("model_name_or_path") && (has("finetuning_type") || has("stage")) && (has("dataset") || has("template"));
}

void prepare(std::vector<Setting>& settings, std::vector<std::string>&) { prepare_trainer(settings); }

/// Names with commas, without blanks.
std::vector<std::string> names_of(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string& name = names.emplace_back(list.substr(0, comma));
    std::erase(name, ' ');
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return names;
}

/// What dataset_info.json says of data sets.
struct Described {
  std::string files;  ///< with commas between
  std::map<std::string, std::string> columns, roles;
};

void add_entry(const Json& entry, const std::string& folder, const std::string& name, Described& made) {
  const auto text = [&](const Json& from, const char* key) { return from.is_object() ? from.value(key, "") : ""; };
  std::string file = text(entry, "file_name");
  if (!file.empty()) file = folder + "/" + file;
  if (file.empty()) file = text(entry, "hf_hub_url");
  require(!file.empty(), ErrorKind::config,
          "{}/dataset_info.json: \"{}\" has neither file_name nor hf_hub_url; name its file with --data", folder, name);
  made.files += (made.files.empty() ? "" : ", ") + file;
  const bool sharegpt = text(entry, "formatting") == "sharegpt";
  const Json none = Json::object();
  const Json& columns = entry.contains("columns") ? entry.at("columns") : none;
  const Json& tags = entry.contains("tags") ? entry.at("tags") : none;
  constexpr std::pair<const char*, const char*> kAlpaca[] = {
      {"prompt", "instruction"}, {"query", "input"}, {"response", "output"}, {"history", "history"}};
  constexpr std::pair<const char*, const char*> kShared[] = {{"messages", "messages"},
                                                             {"system", "system"},
                                                             {"tools", "tools"},
                                                             {"chosen", "chosen"},
                                                             {"rejected", "rejected"}};
  const auto map = [&](const char* theirs, const char* ours) {
    const std::string column = text(columns, theirs);
    if (!column.empty() && column != ours) made.columns[ours] = column;
  };
  if (!sharegpt) {
    for (const auto& [theirs, ours] : kAlpaca) map(theirs, ours);
  }
  for (const auto& [theirs, ours] : kShared) {
    if (sharegpt || std::string_view(theirs) != "messages") map(theirs, ours);
  }
  constexpr std::pair<const char*, const char*> kTags[] = {
      {"user_tag", "user"}, {"assistant_tag", "assistant"}, {"system_tag", "system"}, {"observation_tag", "tool"}};
  for (const auto& [tag, role] : kTags) {
    const std::string word = text(tags, tag);
    if (!word.empty() && word != role) made.roles[word] = role;
  }
  if (const std::string tag = text(tags, "role_tag"); !tag.empty() && tag != "from" && tag != "role")
    made.columns["role"] = tag;
  if (const std::string tag = text(tags, "content_tag"); !tag.empty() && tag != "value" && tag != "content")
    made.columns["content"] = tag;
}

Described describe_sets(const std::string& names, const std::string& folder) {
  Described made;
  const std::string path = folder + "/dataset_info.json";
  std::error_code unreadable;
  const bool known = std::filesystem::is_regular_file(path, unreadable);
  const Json info = known ? parse_json(read_text(path), path) : Json::object();
  for (const std::string& name : names_of(names)) {
    if (info.contains(name)) {
      add_entry(info.at(name), folder, name, made);
      continue;
    }
    require(!known || name.find('/') != std::string::npos || std::filesystem::exists(name, unreadable),
            ErrorKind::config, "{} has no data set \"{}\", and no file has this name", path, name);
    made.files += (made.files.empty() ? "" : ", ") + name;
  }
  return made;
}

std::string joined(const std::map<std::string, std::string>& pairs) {
  std::string text;
  for (const auto& [name, value] : pairs) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
  return text;
}

void translate_data(const DialectView& view, Translation& out) {
  for (const auto& [key, option] : {std::pair("dataset", "data.train"), {"eval_dataset", "data.validation"}}) {
    if (!view.given(key)) continue;
    try {
      Described sets = describe_sets(view.text(key), view.text("dataset_dir"));
      if (view.given("max_samples") && std::string_view(key) == "dataset") {
        std::string limited;
        for (const std::string& file : names_of(sets.files))
          limited += fmt::format("{}{}={}", limited.empty() ? "" : ", ", file, view.integer("max_samples"));
        sets.files = limited;
      }
      out.set(option, sets.files, view.origin(key));
      if (std::string_view(key) != "dataset") continue;
      if (!sets.columns.empty()) out.set("chat.columns", joined(sets.columns), view.origin(key));
      if (!sets.roles.empty()) out.set("chat.roles", joined(sets.roles), view.origin(key));
    } catch (const Error& error) {
      view.object(key, error.what());
    }
  }
  if (!view.given("eval_dataset")) {
    const bool given = view.given("val_size");
    if (view.number("val_size") >= 1) return view.object("val_size", "expected a share of the rows, below 1");
    out.set("chat.validation-share", view.value("val_size"), given ? view.origin("val_size") : whole_default());
  }
}

void translate_method(const DialectView& view, Translation& out) {
  const std::string& type = view.text("finetuning_type");
  if (type != "lora" && type != "full") return view.object("finetuning_type", "expected lora or full");
  if (view.given("adapter_name_or_path")) {
    out.set("lora.adapter", view.value("adapter_name_or_path"), view.origin("adapter_name_or_path"));
    return;
  }
  if (type == "full") return;
  const auto origin = [&](std::string_view key) { return view.given(key) ? view.origin(key) : whole_default(); };
  const int64_t rank = view.integer("lora_rank"), alpha = view.integer("lora_alpha");
  out.set("lora.rank", rank, origin("lora_rank"));
  out.set("lora.alpha", static_cast<double>(alpha > 0 ? alpha : 2 * rank), origin("lora_alpha"));
  out.set("lora.dropout", view.value("lora_dropout"), origin("lora_dropout"));
  const std::string& target = view.text("lora_target");
  out.set("lora.targets", target == "all" ? std::string("all-linear") : target, origin("lora_target"));
  if (view.given("additional_target"))
    out.set("lora.modules-to-save", view.value("additional_target"), view.origin("additional_target"));
}

void translate(const DialectView& view, Translation& out) {
  const std::string& stage = view.text("stage");
  if (stage != "sft" && stage != "dpo")
    return view.object("stage", "expected sft (for `trireme sft`) or dpo (for `trireme dpo`)");
  std::string name = view.text("model_name_or_path");
  if (view.text("model_revision") != "main") name += "@" + view.text("model_revision");
  if (!name.empty()) out.set("model.init", name, view.origin("model_name_or_path"));
  translate_trainer(view, true, out);
  if (!view.given("learning_rate")) out.set("optim.learning-rate", 5e-5, whole_default());
  const bool keeps = view.flag("disable_gradient_checkpointing");
  out.set("model.recompute", keeps ? Recompute::none : Recompute::full,
          keeps ? view.origin("disable_gradient_checkpointing") : whole_default());
  translate_method(view, out);
  translate_data(view, out);
  if (view.given("cutoff_len")) out.set("batch.sequence", view.value("cutoff_len"), view.origin("cutoff_len"));
  if (view.given("early_stopping_steps"))
    out.set("evaluation.patience", view.value("early_stopping_steps"), view.origin("early_stopping_steps"));
  if (stage == "dpo") {
    const std::string& loss = view.text("pref_loss");
    if (loss != "sigmoid" && loss != "hinge" && loss != "ipo")
      return view.object("pref_loss", "expected sigmoid, hinge or ipo");
    if (view.given("pref_loss")) out.set("dpo.loss", loss, view.origin("pref_loss"));
    return;
  }
  const bool packs = view.flag("packing") || view.flag("neat_packing");
  out.set("chat.packing", packs, packs ? view.latest({"packing", "neat_packing"}) : whole_default());
  if (view.flag("mask_history"))
    out.set("chat.loss-on", chat::LossOn::last, view.origin("mask_history"));
  else if (view.flag("train_on_prompt"))
    out.set("chat.loss-on", chat::LossOn::all, view.origin("train_on_prompt"));
  if (view.given("enable_thinking"))
    out.set(
        "chat.template-options",
        std::string(view.flag("enable_thinking") ? R"({"enable_thinking": true})" : R"({"enable_thinking": false})"),
        view.origin("enable_thinking"));
}

}  // namespace

const Dialect kLlamaFactory = {
    .name = "llama-factory",
    .help = "YAML of LLaMA-Factory for the stages sft and dpo; recognised by model_name_or_path, stage and dataset",
    .keys = kKeys,
    .bare_overrides = false,
    .claims = claims,
    .translate = translate,
    .one_file_per_key = true,
    .prepare = prepare,
};

}  // namespace trireme
