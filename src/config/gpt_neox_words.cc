// Keys of GPT-NeoX and of DeepSpeed: which program owns a key, and its names in other programs.

#include <fmt/format.h>

#include "base/error.h"
#include "config/gpt_neox.h"
#include "config/setting.h"

namespace trireme {
namespace {

/// The keys of a DeepSpeed configuration; all other keys are NeoX's own.
constexpr const char* kDeepspeedKeys =
    "train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps optimizer scheduler "
    "prescale_gradients gradient_predivide_factor sparse_gradients communication_data_type fp16 bf16 amp data_types "
    "gradient_clipping zero_optimization zero_allow_untested_optimizer steps_per_print wall_clock_breakdown "
    "memory_breakdown dump_state flops_profiler comms_logger tensorboard wandb csv_monitor monitor_config autotuning "
    "activation_checkpointing sparse_attention data_efficiency curriculum_learning compression_training eigenvalue "
    "progressive_layer_drop elasticity checkpoint aio";

/// Names of NeoX's keys in other programs.
constexpr Synonym kSynonyms[] = {
    {"learning_rate", "optimizer.params.lr"},
    {"n_layer n_layers num_hidden_layers", "num_layers"},
    {"n_embd d_model", "hidden_size"},
    {"n_head num_heads", "num_attention_heads"},
    {"ffn_hidden_size", "intermediate_size"},
    {"num_query_groups num_key_value_heads", "num_kv_heads"},
    {"block_size seq_len max_seq_len max_sequence_length", "seq_length"},
    {"micro_batch_size", "train_micro_batch_size_per_gpu"},
    {"global_batch_size", "train_batch_size"},
    {"grad_accum_steps grad_acc_steps", "gradient_accumulation_steps"},
    {"max_grad_norm grad_clip", "gradient_clipping"},
    {"max_iters max_steps", "train_iters"},
    {"save_steps checkpoint_interval", "checkpoint_factor"},
    {"eval_steps", "eval_interval"},
    {"logging_steps", "log_interval"},
    {"lr_decay_steps", "lr_decay_iters"},
    {"lr_scheduler_type", "lr_decay_style"},
    {"warmup_ratio lr_warmup_fraction", "warmup"},
    {"dropout", "hidden_dropout"},
    {"tensor_parallel_size tensor_model_parallel_size", "model_parallel_size"},
    {"pipeline_parallel_size pipeline_model_parallel_size", "pipe_parallel_size"},
    {"output_dir", "save"},
    {"tie_word_embeddings", "no_weight_tying"},
    {"rope_theta rotary_base", "rotary_emb_base"},
    {"rotary_percent", "rotary_pct"},
};

}  // namespace

std::span<const Synonym> gpt_neox_synonyms() { return kSynonyms; }

std::string_view gpt_neox_saved_keys() {
  return "num_layers hidden_size num_attention_heads max_position_embeddings seq_length intermediate_size "
         "mlp_multiple_of num_kv_heads norm final_norm layernorm_epsilon rms_norm_epsilon use_qk_layernorm pos_emb "
         "rotary_pct rotary_emb_base opt_pos_emb_offset no_weight_tying attention_config sparsity_config "
         "sliding_window_width num_unique_layers soft_prompt_tuning expansion_factor num_experts moe_num_experts "
         "use_mup make_vocab_size_divisible_by activation bias_gelu_fusion gpt_j_residual gpt_j_tied use_bias_in_norms "
         "use_bias_in_attn_linear use_bias_in_mlp mlp_type output_layer_parallelism hidden_dropout attention_dropout "
         "pipe_parallel_size model_parallel_size train_batch_size train_micro_batch_size_per_gpu "
         "gradient_accumulation_steps optimizer weight_decay lr_decay_style lr_decay_iters min_lr warmup train_iters "
         "seed";
}

bool is_deepspeed_key(std::string_view key) {
  return lists_word(canonical(kDeepspeedKeys), canonical(key.substr(0, key.find('.'))));
}

void take_out_extra_args(std::vector<Setting>& settings, std::vector<std::string>& objections) {
  constexpr std::string_view kExtra = "deepspeed-extra-args.", kClip = "gradient-clipping";
  std::erase_if(settings, [&](Setting& setting) {
    const std::string key = canonical(setting.key);
    if (!key.starts_with(kExtra) || key.substr(kExtra.size()) == kClip) return false;
    const std::string inner = setting.key.substr(kExtra.size());
    const bool known = is_deepspeed_key(inner), optimizer = inner.substr(0, inner.find('.')) == "optimizer";
    if (!known)
      objections.push_back(fmt::format("{}: DeepSpeed has no key \"{}\"; remove it from deepspeed_extra_args",
                                       setting.origin.text(), inner));
    if (optimizer)
      objections.push_back(
          fmt::format("{}: the optimizer in deepspeed_extra_args has no effect, because NeoX passes its own optimizer "
                      "to DeepSpeed; set optimizer outside it",
                      setting.origin.text()));
    setting.key = inner;
    return !known || optimizer;
  });
}

}  // namespace trireme
