// Keys of GPT-NeoX and of DeepSpeed: which program owns a key, and its names in other programs.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "config/gpt_neox.h"

namespace trireme {
namespace {

/// The keys of a DeepSpeed configuration; all other keys are NeoX's own.
constexpr const char* kDeepspeedKeys[] = {"train_batch_size",
                                          "train_micro_batch_size_per_gpu",
                                          "gradient_accumulation_steps",
                                          "optimizer",
                                          "scheduler",
                                          "prescale_gradients",
                                          "gradient_predivide_factor",
                                          "sparse_gradients",
                                          "communication_data_type",
                                          "fp16",
                                          "bf16",
                                          "amp",
                                          "data_types",
                                          "gradient_clipping",
                                          "zero_optimization",
                                          "zero_allow_untested_optimizer",
                                          "steps_per_print",
                                          "wall_clock_breakdown",
                                          "memory_breakdown",
                                          "dump_state",
                                          "flops_profiler",
                                          "comms_logger",
                                          "tensorboard",
                                          "wandb",
                                          "csv_monitor",
                                          "monitor_config",
                                          "autotuning",
                                          "activation_checkpointing",
                                          "sparse_attention",
                                          "data_efficiency",
                                          "curriculum_learning",
                                          "compression_training",
                                          "eigenvalue",
                                          "progressive_layer_drop",
                                          "elasticity",
                                          "checkpoint",
                                          "aio"};

/// Names of NeoX's keys in other programs.
constexpr Synonym kSynonyms[] = {{"learning_rate", "optimizer.params.lr"},
                                 {"n_layer", "num_layers"},
                                 {"n_layers", "num_layers"},
                                 {"num_hidden_layers", "num_layers"},
                                 {"n_embd", "hidden_size"},
                                 {"d_model", "hidden_size"},
                                 {"n_head", "num_attention_heads"},
                                 {"num_heads", "num_attention_heads"},
                                 {"ffn_hidden_size", "intermediate_size"},
                                 {"num_query_groups", "num_kv_heads"},
                                 {"num_key_value_heads", "num_kv_heads"},
                                 {"block_size", "seq_length"},
                                 {"seq_len", "seq_length"},
                                 {"max_seq_len", "seq_length"},
                                 {"micro_batch_size", "train_micro_batch_size_per_gpu"},
                                 {"global_batch_size", "train_batch_size"},
                                 {"grad_accum_steps", "gradient_accumulation_steps"},
                                 {"grad_acc_steps", "gradient_accumulation_steps"},
                                 {"max_grad_norm", "gradient_clipping"},
                                 {"grad_clip", "gradient_clipping"},
                                 {"max_iters", "train_iters"},
                                 {"max_steps", "train_iters"},
                                 {"save_steps", "checkpoint_factor"},
                                 {"checkpoint_interval", "checkpoint_factor"},
                                 {"eval_steps", "eval_interval"},
                                 {"logging_steps", "log_interval"},
                                 {"lr_decay_steps", "lr_decay_iters"},
                                 {"lr_scheduler_type", "lr_decay_style"},
                                 {"warmup_ratio", "warmup"},
                                 {"lr_warmup_fraction", "warmup"},
                                 {"dropout", "hidden_dropout"},
                                 {"tensor_parallel_size", "model_parallel_size"},
                                 {"tensor_model_parallel_size", "model_parallel_size"},
                                 {"pipeline_parallel_size", "pipe_parallel_size"},
                                 {"pipeline_model_parallel_size", "pipe_parallel_size"},
                                 {"output_dir", "save"},
                                 {"tie_word_embeddings", "no_weight_tying"},
                                 {"rope_theta", "rotary_emb_base"},
                                 {"rotary_base", "rotary_emb_base"},
                                 {"rotary_percent", "rotary_pct"},
                                 {"max_sequence_length", "seq_length"}};

}  // namespace

std::span<const Synonym> gpt_neox_synonyms() { return kSynonyms; }

bool is_deepspeed_key(std::string_view key) {
  return std::ranges::any_of(kDeepspeedKeys, [group = canonical(key.substr(0, key.find('.')))](const char* own) {
    return canonical(own) == group;
  });
}

void take_out_extra_args(std::vector<Setting>& settings) {
  constexpr std::string_view kExtra = "deepspeed-extra-args.", kClip = "gradient-clipping";
  for (Setting& setting : settings) {
    const std::string key = canonical(setting.key);
    if (!key.starts_with(kExtra) || key.substr(kExtra.size()) == kClip) continue;
    const std::string inner = setting.key.substr(kExtra.size());
    require(is_deepspeed_key(inner), ErrorKind::config,
            "{}: DeepSpeed has no key \"{}\"; remove it from deepspeed_extra_args", setting.origin.text(), inner);
    require(inner.substr(0, inner.find('.')) != "optimizer", ErrorKind::config,
            "{}: the optimizer in deepspeed_extra_args has no effect, because NeoX passes its own optimizer to "
            "DeepSpeed; set optimizer outside it",
            setting.origin.text());
    setting.key = inner;
  }
}

}  // namespace trireme
