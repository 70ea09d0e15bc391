// Dialects trl-sft and trl-dpo: the fields of TRL 1.16's SFTConfig, DPOConfig, ModelConfig and ScriptArguments, as its
// scripts sft and dpo take them on their command line and in YAML files.

#include "config/trl.h"

#include <algorithm>
#include <filesystem>

#include "config/choices.h"
#include "config/flag_word.h"
#include "config/schema.h"
#include "config/trainer_keys.h"
#include "config/yaml_reader.h"
#include "tensor/dtype.h"
#include "text/chat/loss_on.h"

namespace trireme {
namespace {

using enum DialectRow::Kind;

constexpr DialectRow kRows[] = {
    // ModelConfig
    {"model_name_or_path=", mapped, "model.init; with it, what is not given has TRL's defaults"},
    {"model_revision=main", mapped, "model.init NAME@REVISION"},
    {"dtype=float32; torch_dtype=float32", mapped,
     "precision.dtype: bf16 for bfloat16; float32 and auto change nothing; float16 is refused"},
    {"attn_implementation=", no_effect, "attention never makes the matrix of scores"},
    {"use_peft=false", mapped, "lora.rank, by lora_r"},
    {"lora_r=16", mapped, "lora.rank, with use_peft"},
    {"lora_alpha=32", mapped, "lora.alpha, with use_peft"},
    {"lora_dropout=0.05", mapped, "lora.dropout, with use_peft"},
    {"lora_target_modules=; lora_target=", mapped, "lora.targets, with use_peft"},
    {"lora_modules_to_save=", mapped, "lora.modules-to-save, with use_peft"},
    {"lora_target_parameters=", refused, "adapters are for linears only; remove it"},
    {"lora_task_type=CAUSAL_LM", only, "only CAUSAL_LM is supported; remove it"},
    {"use_rslora=false", same, "lora.rslora"},
    {"use_dora=false", same, "lora.dora"},
    {"load_in_8bit=false; load_in_4bit=false", only,
     "bases of 8 or 4 bits are not supported; use --precision.dtype bf16"},
    {"bnb_4bit_quant_type=nf4; use_bnb_nested_quant=false; bnb_4bit_quant_storage=", no_effect, "for load_in_4bit"},
    {"model_init_kwargs=", refused, "set model.* instead"},
    {"router_aux_loss_coef=", no_effect, "the model's own files have it"},
    // ScriptArguments
    {"dataset_name=", mapped, "data.train"},
    {"dataset_config=", refused, "name the files of the configuration: --data OWNER/NAME/PATTERN"},
    {"dataset_train_split=train", only, "name the files of the split: --data OWNER/NAME/PATTERN"},
    {"dataset_test_split=test", refused, "name the validation data: --validation DATA"},
    {"dataset_streaming=false", no_effect, "conversations are tokenised once, and kept"},
    {"ignore_bias_buffers=false", no_effect, "torch is not used"},
    // What is trained on
    {"chat_template_path=", same, "chat.template"},
    {"eos_token=", same, "chat.eos-token"},
    {"pad_token=", no_effect, "no padding is computed"},
    {"dataset_text_field=text", mapped, "chat.columns text=NAME"},
    {"dataset_kwargs=", refused, "chat.columns names columns"},
    {"dataset_num_proc=0; dataset_batch_size=0", no_effect, "every rank tokenises its share with all threads"},
    {"max_length=1024; max_seq_length=1024", mapped, "batch.sequence"},
    {"max_prompt_length=", refused, "--sequence N, the ids of a prompt with its answer"},
    {"truncation_mode=keep_start", only, "a long row loses its end; remove it"},
    {"shuffle_dataset=false", no_effect, "the rows of every epoch are shuffled by run.seed"},
    {"packing=false", mapped, "chat.packing"},
    {"packing_strategy=bfd", only, "conversations are packed by best fit decreasing; remove it"},
    {"padding_free=false; pad_to_multiple_of=auto; eval_packing=", no_effect, "no padding is computed"},
    {"completion_only_loss=true", only, "prompts are never trained on; write prompt and completion as messages"},
    {"assistant_only_loss=false", mapped, "chat.loss-on: assistant; false: all"},
    {"loss_type=", mapped, "trl-dpo: dpo.loss; trl-sft: nll, others are refused"},
    {"loss_weights=", refused, "one --loss; a sum of several is unsupported"},
    {"beta=0.1", same, "dpo.beta"},
    {"label_smoothing=0.0", same, "dpo.label-smoothing"},
    {"disable_dropout=true", only, "--model.dropout X, 0 if it is not given"},
    {"precompute_ref_log_probs=false; precompute_ref_batch_size=0", no_effect,
     "those of the reference are always computed before the training"},
    {"ref_model=", refused, "the model that the training starts from is the reference"},
    {"sync_ref_model=false", only, "the model that the training starts from stays the reference; remove it"},
    {"ref_model_mixup_alpha=0.6; ref_model_sync_steps=512", no_effect, "for sync_ref_model"},
    {"f_divergence_type=reverse_kl", only, "only reverse_kl is supported; remove it"},
    {"f_alpha_divergence_coef=0.5; discopop_tau=0.05", no_effect, "for other divergences and losses"},
    {"use_weighting=false", only, "pairs have equal weight; remove it"},
    {"ld_alpha=; rpo_alpha=", refused, "remove it: --loss is what is minimised"},
};

std::vector<DialectKey> all_keys() {
  std::vector<DialectKey> keys = dialect_keys(kRows);
  std::ranges::move(dialect_keys(trainer_rows()), std::back_inserter(keys));
  return keys;
}
const std::vector<DialectKey>& trl_keys() {
  static const std::vector<DialectKey> keys = all_keys();
  return keys;
}

bool claims(const std::string&, const std::vector<Setting>& settings) {
  const auto has = [&](std::string_view key) {
    return std::ranges::find(settings, key, &Setting::key) != settings.end();
  };
  constexpr const char* kOfLlamaFactory[] = {"stage", "finetuning_type", "template", "cutoff_len", "dataset"};
  return has("model_name_or_path") && std::ranges::none_of(kOfLlamaFactory, has);
}
bool claims_nothing(const std::string&, const std::vector<Setting>&) { return false; }

/// Lists of names are texts with commas here.
void prepare(std::vector<Setting>& settings, std::vector<std::string>&) {
  prepare_trainer(settings);
  constexpr std::string_view kLists[] = {"lora-target-modules", "lora-modules-to-save", "loss-type"};
  for (Setting& setting : settings) {
    if (setting.problem != "a list" || std::ranges::find(kLists, canonical(setting.key)) == std::end(kLists)) continue;
    std::string names = setting.text;
    std::erase_if(names, [](char c) { return c == '[' || c == ']' || c == '"' || c == ' '; });
    setting.value = setting.text = names;
    setting.problem.clear();
  }
}

void translate_model(const DialectView& view, bool whole, Translation& out) {
  if (view.given("model_name_or_path")) {
    std::string name = view.text("model_name_or_path");
    if (view.text("model_revision") != "main") name += "@" + view.text("model_revision");
    out.set("model.init", name, view.origin("model_name_or_path"));
  }
  const std::string_view dtype = given_of(view, "dtype", "torch_dtype");
  if (view.text(dtype) == "bfloat16" && !whole && !view.given("bf16"))
    out.set("precision.dtype", DType::bf16, view.origin(dtype));
  if (view.text(dtype) != "bfloat16" && view.text(dtype) != "float32" && view.text(dtype) != "auto")
    view.object(dtype, "expected bfloat16, float32 or auto");
  const std::string_view length = given_of(view, "max_length", "max_seq_length");
  if (view.given(length)) out.set("batch.sequence", view.value(length), view.origin(length));
}

void translate_lora(const DialectView& view, bool whole, Translation& out) {
  const std::string_view targets = given_of(view, "lora_target_modules", "lora_target");
  const bool adapts = view.flag("use_peft") || (!whole && view.given("lora_r"));
  if (!adapts) {
    for (const std::string_view key : {std::string_view("lora_r"), std::string_view("lora_alpha"), targets}) {
      if (view.given(key) && whole) view.object(key, "without use_peft TRL trains all weights; add --use_peft");
    }
    if (whole) return;
  }
  const auto set = [&](std::string_view key, const char* option, bool with_default) {
    if (view.given(key)) return out.set(option, view.value(key), view.origin(key));
    if (with_default) out.set(option, view.value(key), whole_default());
  };
  const bool peft = view.flag("use_peft");
  set("lora_r", "lora.rank", peft);
  set("lora_alpha", "lora.alpha", peft);
  set("lora_dropout", "lora.dropout", peft);
  set(targets, "lora.targets", false);
  set("lora_modules_to_save", "lora.modules-to-save", false);
}

bool is_whole(const DialectView& view) { return view.given("model_name_or_path"); }

void translate_common(const DialectView& view, Translation& out) {
  const bool whole = is_whole(view);
  translate_model(view, whole, out);
  translate_lora(view, whole, out);
  translate_trainer(view, whole, out);
  if (view.given("dataset_text_field") && view.text("dataset_text_field") != "text")
    out.set("chat.columns", "text=" + view.text("dataset_text_field"), view.origin("dataset_text_field"));
  if (view.given("dataset_name")) out.set("data.train", view.value("dataset_name"), view.origin("dataset_name"));
}

void translate_sft(const DialectView& view, Translation& out) {
  translate_common(view, out);
  const bool whole = is_whole(view);
  for (const auto& [key, option] : {std::pair("packing", "chat.packing")}) {
    if (whole || view.given(key))
      out.set(option, view.value(key), view.given(key) ? view.origin(key) : whole_default());
  }
  if (whole || view.given("assistant_only_loss"))
    out.set("chat.loss-on", view.flag("assistant_only_loss") ? chat::LossOn::assistant : chat::LossOn::all,
            view.given("assistant_only_loss") ? view.origin("assistant_only_loss") : whole_default());
  if (view.given("loss_type") && view.text("loss_type") != "nll")
    view.object("loss_type", "the loss is the mean cross-entropy, nll; remove it");
}

void translate_dpo(const DialectView& view, Translation& out) {
  translate_common(view, out);
  if (!view.given("loss_type")) return;
  std::string loss = view.text("loss_type");
  std::ranges::replace(loss, '_', '-');
  if (loss == "nll")
    return view.object("loss_type",
                       "it is a loss of sft; expected sigmoid, robust, hinge, ipo or "
                       "sigmoid_norm");
  out.set("dpo.loss", loss, view.origin("loss_type"));
}

}  // namespace

const Dialect kTrlSft = {
    .name = "trl-sft",
    .help = "arguments and YAML of TRL's script sft; recognised by its names",
    .keys = trl_keys(),
    .bare_overrides = false,
    .claims = claims,
    .translate = translate_sft,
    .one_file_per_key = true,
    .prepare = prepare,
};

const Dialect kTrlDpo = {
    .name = "trl-dpo",
    .help = "arguments and YAML of TRL's script dpo",
    .keys = trl_keys(),
    .bare_overrides = false,
    .claims = claims_nothing,  // its files look like those of sft
    .translate = translate_dpo,
    .one_file_per_key = true,
    .prepare = prepare,
};

bool speaks_trl(const std::vector<std::string>& words, const std::function<bool(const std::string& name)>& knows) {
  return std::ranges::any_of(words, [&](const std::string& word) {
    const std::filesystem::path path = word;
    std::error_code unreadable;
    if ((path.extension() == ".yaml" || path.extension() == ".yml") &&
        std::filesystem::is_regular_file(path, unreadable))
      return claims(word, read_yaml(word, 0));
    if (!word.starts_with("--")) return false;
    const std::string name = flag_word(word).name;
    return !knows(name) && schema().find(std::string_view(name).substr(2)) == nullptr &&
           kTrlSft.find(std::string_view(name).substr(2)) != nullptr;
  });
}

}  // namespace trireme
