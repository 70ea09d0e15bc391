// Every key that GPT-NeoX has (ea7aefd, its twelve groups), with NeoX's default and a value that is another.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/file.h"
#include "config/document.h"
#include "config/gpt_neox.h"
#include "config/load.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using enum KeyRole;

struct NeoxKey {
  const char *name, *default_value, *other;
  KeyRole role;         ///< of the other value: the configuration changes; it does not; it is refused
  const char* besides;  ///< lines that the other value is for
};

// clang-format off
const NeoxKey kNeoxKeys[] = {
    // NeoXArgsParallelism
    {"pipe_parallel_size", "0", "2", mapped, ""},
    {"model_parallel_size", "1", "2", mapped, ""},
    {"pipe_partition_method", "'type:transformer|mlp'", "x", no_effect, ""},
    {"world_size", "null", "3", no_effect, ""},
    {"is_pipe_parallel", "false", "true", no_effect, ""},
    {"sequence_parallel", "false", "true", mapped, "model_parallel_size: 2"},
    // NeoXArgsModel
    {"precision", "null", "bfloat16", mapped, ""},
    {"num_layers", "null", "6", mapped, ""},
    {"hidden_size", "null", "128", mapped, ""},
    {"intermediate_size", "null", "96", mapped, ""},
    {"mlp_multiple_of", "1", "100", refused, ""},
    {"expansion_factor", "null", "2.0", mapped, ""},
    {"num_attention_heads", "null", "2", mapped, ""},
    {"num_kv_heads", "null", "1", mapped, ""},
    {"seq_length", "null", "8", mapped, ""},
    {"sliding_window_width", "null", "4", refused, ""},
    {"max_position_embeddings", "null", "64", mapped, ""},
    {"norm", "layernorm", "rmsnorm", mapped, ""},
    {"layernorm_fusion", "false", "true", no_effect, ""},
    {"rmsnorm_fusion", "false", "true", no_effect, ""},
    {"use_qk_layernorm", "false", "true", refused, ""},
    {"layernorm_epsilon", "1.0e-5", "1.0e-6", mapped, ""},
    {"rms_norm_epsilon", "1.0e-8", "0.25", mapped, "norm: rmsnorm"},
    {"scalenorm_epsilon", "1.0e-8", "0.25", no_effect, ""},
    {"pos_emb", "learned", "rotary", mapped, ""},
    {"rpe_num_buckets", "32", "3", no_effect, ""},
    {"rpe_max_distance", "128", "3", no_effect, ""},
    {"opt_pos_emb_offset", "0", "2", mapped, ""},
    {"no_weight_tying", "false", "true", mapped, ""},
    {"attention_config", "null", "[[[local], 4]]", refused, ""},
    {"sparsity_config", "null", "{block: 16}", no_effect, ""},
    {"num_unique_layers", "null", "2", refused, ""},
    {"param_sharing_style", "grouped", "x", no_effect, ""},
    {"make_vocab_size_divisible_by", "128", "64", mapped, ""},
    {"activation", "gelu", "relu", mapped, ""},
    {"use_flashattn_swiglu", "false", "true", no_effect, ""},
    {"scaled_upper_triang_masked_softmax_fusion", "false", "true", no_effect, ""},
    {"scaled_masked_softmax_fusion", "false", "true", no_effect, ""},
    {"bias_gelu_fusion", "false", "true", mapped, ""},
    {"bias_dropout_fusion", "false", "true", no_effect, ""},
    {"rope_fusion", "false", "true", no_effect, ""},
    {"fused_kernels_build_path", "null", "x", no_effect, ""},
    {"fp16_lm_cross_entropy", "false", "true", refused, ""},
    {"init_method_std", "0.02", "0.006", mapped, ""},
    {"apply_query_key_layer_scaling", "false", "true", no_effect, ""},
    {"use_cpu_initialization", "false", "true", no_effect, ""},
    {"attention_softmax_in_fp32", "false", "true", no_effect, ""},
    {"rotary_pct", "1.0", "0.5", mapped, "pos_emb: rotary"},
    {"rotary_emb_base", "10000", "500", mapped, "pos_emb: rotary"},
    {"rotary_save_freqs_buffer", "false", "true", no_effect, ""},
    {"init_method", "normal", "small_init", refused, ""},
    {"output_layer_init_method", "scaled_normal", "normal", mapped, ""},
    {"gmlp_attn_dim", "64", "3", no_effect, ""},
    {"gpt_j_residual", "false", "true", mapped, ""},
    {"gpt_j_tied", "false", "true", refused, ""},
    {"use_bias_in_norms", "true", "false", mapped, ""},
    {"use_bias_in_attn_linear", "true", "false", mapped, ""},
    {"use_bias_in_mlp", "true", "false", mapped, ""},
    {"soft_prompt_tuning", "null", "{enabled: true}", refused, ""},
    {"mamba_selective_scan_fusion", "false", "true", no_effect, ""},
    {"mamba_causal_conv_fusion", "false", "true", no_effect, ""},
    {"mamba_inner_func_fusion", "false", "true", no_effect, ""},
    {"mamba_selective_fp32_params", "true", "false", no_effect, ""},
    {"mamba_use_bias_in_conv", "true", "false", no_effect, ""},
    {"mamba_use_bias_in_linears", "false", "true", no_effect, ""},
    {"output_layer_parallelism", "column", "row", refused, ""},
    {"serve_model_weights", "false", "true", refused, ""},
    {"weight_server_port", "6000", "3", no_effect, ""},
    {"online_dataserver_ips", "localhost", "x", no_effect, ""},
    {"online_dataserver_ports", "10000", "3", no_effect, ""},
    {"te_columnparallel", "false", "true", refused, ""},
    {"te_rowparallel", "false", "true", refused, ""},
    {"te_layernorm_mlp", "false", "true", refused, ""},
    {"te_mha", "false", "true", refused, ""},
    {"te_fp8_format", "hybrid", "e4m3", no_effect, ""},
    {"te_fp8_wgrad", "true", "false", no_effect, ""},
    {"te_fp8_amax_history_len", "1", "3", no_effect, ""},
    {"te_fp8_amax_compute_algo", "most_recent", "x", no_effect, ""},
    {"te_fp8_margin", "0", "3", no_effect, ""},
    {"te_fp8_mha", "false", "true", refused, ""},
    {"dim_att", "null", "3", no_effect, ""},
    {"head_size", "null", "3", no_effect, ""},
    {"ffn_dim", "null", "3", no_effect, ""},
    // NeoXArgsOptimizer
    {"optimizer_type", "adam", "onebitadam", no_effect, ""},
    {"use_bnb_optimizer", "false", "true", refused, ""},
    {"zero_stage", "null", "1", no_effect, ""},
    {"zero_reduce_scatter", "null", "true", no_effect, ""},
    {"zero_contiguous_gradients", "null", "true", no_effect, ""},
    {"zero_reduce_bucket_size", "null", "3", no_effect, ""},
    {"zero_allgather_bucket_size", "null", "3", no_effect, ""},
    {"lr", "null", "0.25", no_effect, ""},
    // NeoXArgsLRScheduler
    {"lr_decay_style", "linear", "cosine", mapped, ""},
    {"lr_decay_iters", "null", "50", mapped, ""},
    {"lr_decay_fraction", "null", "0.5", mapped, ""},
    {"min_lr", "0.0", "0.0001", mapped, ""},
    {"warmup", "0.01", "0.5", mapped, ""},
    {"override_lr_scheduler", "false", "true", no_effect, ""},
    {"use_checkpoint_lr_scheduler", "false", "true", refused, ""},
    // NeoXArgsLogging
    {"use_wandb", "null", "true", refused, ""},
    {"wandb_group", "null", "x", no_effect, ""},
    {"wandb_run_name", "null", "x", no_effect, ""},
    {"wandb_team", "null", "x", no_effect, ""},
    {"wandb_project", "neox", "x", no_effect, ""},
    {"wandb_host", "'https://api.wandb.ai'", "x", no_effect, ""},
    {"wandb_init_all_ranks", "false", "true", no_effect, ""},
    {"git_hash", "abc1234", "x", no_effect, ""},
    {"log_dir", "null", "x", no_effect, ""},
    {"tensorboard_dir", "null", "x", no_effect, ""},
    {"use_comet", "null", "true", refused, ""},
    {"comet_workspace", "null", "x", no_effect, ""},
    {"comet_project", "null", "x", no_effect, ""},
    {"comet_experiment_name", "null", "x", no_effect, ""},
    {"comet_tags", "null", "[a]", no_effect, ""},
    {"comet_others", "null", "{a: 1}", no_effect, ""},
    {"comet_experiment", "null", "x", no_effect, ""},
    {"peak_theoretical_tflops", "null", "3.0", mapped, ""},
    {"log_interval", "100", "7", mapped, ""},
    {"log_grad_pct_zeros", "false", "true", refused, ""},
    {"log_param_norm", "false", "true", refused, ""},
    {"log_grad_norm", "false", "true", no_effect, ""},
    {"log_optimizer_states", "false", "true", refused, ""},
    {"log_gradient_noise_scale", "false", "true", refused, ""},
    {"gradient_noise_scale_n_batches", "5", "3", no_effect, ""},
    {"gradient_noise_scale_cpu_offload", "false", "true", no_effect, ""},
    {"memory_profiling", "false", "true", refused, ""},
    {"memory_profiling_path", "null", "x", no_effect, ""},
    {"profile", "false", "true", refused, ""},
    {"profile_step_start", "10", "3", no_effect, ""},
    {"profile_step_stop", "12", "3", no_effect, ""},
    // NeoXArgsOther
    {"distributed_backend", "nccl", "x", no_effect, ""},
    {"local_rank", "null", "3", no_effect, ""},
    {"rank", "null", "3", no_effect, ""},
    {"lazy_mpu_init", "false", "true", no_effect, ""},
    {"short_seq_prob", "0.1", "0.25", no_effect, ""},
    {"eod_mask_loss", "false", "true", refused, ""},
    {"adlr_autoresume", "false", "true", refused, ""},
    {"adlr_autoresume_interval", "1000", "3", no_effect, ""},
    {"seed", "1234", "7", mapped, ""},
    {"onnx_safe", "false", "true", no_effect, ""},
    {"deepscale", "false", "true", no_effect, ""},
    {"deepscale_config", "null", "x", no_effect, ""},
    {"deepspeed_mpi", "false", "true", no_effect, ""},
    {"deepspeed_slurm", "false", "true", no_effect, ""},
    {"user_script", "null", "x", no_effect, ""},
    {"do_train", "null", "true", no_effect, ""},
    {"do_valid", "null", "true", no_effect, ""},
    {"do_test", "null", "true", no_effect, ""},
    {"global_num_gpus", "null", "3", no_effect, ""},
    // NeoXArgsTokenizer
    {"tokenizer_type", "GPT2BPETokenizer", "CharLevelTokenizer", mapped, ""},
    {"padded_vocab_size", "null", "3", no_effect, ""},
    // NeoXArgsTraining
    {"data_path", "null", "d/x", mapped, ""},
    {"use_shared_fs", "true", "false", refused, ""},
    {"train_data_paths", "null", "[a]", mapped, ""},
    {"train_label_data_paths", "null", "[a]", refused, ""},
    {"train_reward_data_paths", "null", "[a]", refused, ""},
    {"test_data_paths", "null", "[c]", mapped, "train_data_paths: [a]"},
    {"test_label_data_paths", "null", "[a]", refused, ""},
    {"test_reward_data_paths", "null", "[a]", refused, ""},
    {"valid_data_paths", "null", "[b]", mapped, "train_data_paths: [a]"},
    {"valid_label_data_paths", "null", "[a]", refused, ""},
    {"valid_reward_data_paths", "null", "[a]", refused, ""},
    {"pos_train_data_paths", "null", "[a]", refused, ""},
    {"neg_train_data_paths", "null", "[a]", refused, ""},
    {"pos_train_label_data_paths", "null", "[a]", refused, ""},
    {"neg_train_label_data_paths", "null", "[a]", refused, ""},
    {"pos_valid_data_paths", "null", "[a]", refused, ""},
    {"neg_valid_data_paths", "null", "[a]", refused, ""},
    {"pos_valid_label_data_paths", "null", "[a]", refused, ""},
    {"neg_valid_label_data_paths", "null", "[a]", refused, ""},
    {"pos_test_data_paths", "null", "[a]", refused, ""},
    {"neg_test_data_paths", "null", "[a]", refused, ""},
    {"pos_test_label_data_paths", "null", "[a]", refused, ""},
    {"neg_test_label_data_paths", "null", "[a]", refused, ""},
    {"train_data_weights", "null", "[2.0]", mapped, "train_data_paths: [a]"},
    {"valid_data_weights", "null", "[2.0]", mapped, "train_data_paths: [a]\nvalid_data_paths: [b]"},
    {"test_data_weights", "null", "[2.0]", mapped, "train_data_paths: [a]\ntest_data_paths: [b]"},
    {"weight_by_num_documents", "false", "true", refused, "train_data_paths: [a, b]"},
    {"weighted_sampler_alpha", "1.0", "0.25", no_effect, ""},
    {"data_impl", "infer", "mmap", no_effect, ""},
    {"pack_impl", "packed", "unpacked", refused, ""},
    {"dataset_impl", "gpt2", "pairwise", refused, ""},
    {"train_impl", "normal", "dpo", refused, ""},
    {"dpo_fp32", "true", "false", no_effect, ""},
    {"dpo_reference_free", "false", "true", no_effect, ""},
    {"dpo_beta", "0.1", "0.25", no_effect, ""},
    {"kto_fp32", "true", "false", no_effect, ""},
    {"kto_desirable_weight", "1.0", "0.25", no_effect, ""},
    {"kto_undesirable_weight", "1.0", "0.25", no_effect, ""},
    {"z_loss", "0.0", "0.25", no_effect, ""},
    {"kto_beta", "0.1", "0.25", no_effect, ""},
    {"fp32_reinforce", "true", "false", no_effect, ""},
    {"kl_impl", "mse", "abs", no_effect, ""},
    {"kl_div_beta", "0.1", "0.25", no_effect, ""},
    {"reinforce_leave_one_out", "false", "true", no_effect, ""},
    {"allow_chopped", "true", "false", refused, ""},
    {"mmap_warmup", "false", "true", no_effect, ""},
    {"save", "null", "out", mapped, ""},
    {"s3_path", "null", "s3://b", refused, ""},
    {"s3_chunk_size", "104857600", "3", no_effect, ""},
    {"config_files", "null", "{a.yml: x}", no_effect, ""},
    {"load", "null", "out", mapped, "save: out"},
    {"checkpoint_validation_with_forward_pass", "false", "true", no_effect, ""},
    {"checkpoint_scale", "linear", "log", refused, ""},
    {"checkpoint_factor", "null", "5", mapped, ""},
    {"extra_save_iters", "null", "[1, 2]", mapped, ""},
    {"no_save_optim", "false", "true", refused, ""},
    {"no_save_rng", "false", "true", no_effect, ""},
    {"no_load_optim", "false", "true", refused, ""},
    {"no_load_rng", "false", "true", no_effect, ""},
    {"finetune", "false", "true", mapped, "load: weights\nsave: out"},
    {"batch_size", "null", "3", no_effect, ""},
    {"train_iters", "null", "7", mapped, ""},
    {"train_epochs", "null", "2", refused, ""},
    {"eval_iters", "100", "3", mapped, ""},
    {"keep_last_n_checkpoints", "null", "3", mapped, ""},
    {"eval_interval", "1000", "5", mapped, ""},
    {"split", "'969, 30, 1'", "'9,1,0'", mapped, "data_path: d"},
    {"vocab_file", "null", "v.json", mapped, "tokenizer_type: HFTokenizer"},
    {"merge_file", "null", "m.txt", refused, ""},
    {"num_workers", "2", "3", no_effect, ""},
    {"exit_interval", "null", "5", refused, ""},
    {"attention_dropout", "0.0", "0.1", mapped, ""},
    {"hidden_dropout", "0.0", "0.1", mapped, ""},
    {"weight_decay", "0.1", "0.2", mapped, ""},
    {"checkpoint_activations", "false", "true", mapped, ""},
    {"checkpoint_num_layers", "1", "3", no_effect, ""},
    {"deepspeed_activation_checkpointing", "true", "false", no_effect, ""},
    {"contiguous_checkpointing", "false", "true", no_effect, ""},
    {"checkpoint_in_cpu", "false", "true", no_effect, ""},
    {"synchronize_each_layer", "false", "true", no_effect, ""},
    {"profile_backward", "false", "true", no_effect, ""},
    {"partition_activations", "false", "true", no_effect, ""},
    {"clip_grad", "1.0", "0.25", no_effect, ""},
    {"hysteresis", "2", "3", no_effect, ""},
    {"dynamic_loss_scale", "null", "true", no_effect, ""},
    {"loss_scale", "null", "0.25", no_effect, ""},
    {"loss_scale_window", "1000.0", "0.25", no_effect, ""},
    {"min_scale", "1.0", "0.25", no_effect, ""},
    {"char_level_ppl", "false", "true", refused, ""},
    {"use_mup", "false", "true", refused, ""},
    {"coord_check", "false", "true", no_effect, ""},
    {"save_base_shapes", "false", "true", no_effect, ""},
    {"base_shapes_file", "null", "x", no_effect, ""},
    {"mup_init_scale", "1.0", "0.25", no_effect, ""},
    {"mup_attn_temp", "1.0", "0.25", no_effect, ""},
    {"mup_output_temp", "1.0", "0.25", no_effect, ""},
    {"mup_embedding_mult", "1.0", "0.25", no_effect, ""},
    {"mup_rp_embedding_mult", "1.0", "2.0", refused, ""},
    {"mup_width_scale", "2", "3", no_effect, ""},
    // NeoXArgsTextgen
    {"text_gen_type", "null", "x", no_effect, ""},
    {"precompute_model_name", "null", "m", refused, ""},
    {"temperature", "0.0", "0.25", no_effect, ""},
    {"top_p", "0.0", "0.25", no_effect, ""},
    {"top_k", "0", "3", no_effect, ""},
    {"return_logits", "false", "true", no_effect, ""},
    {"maximum_tokens", "64", "3", no_effect, ""},
    {"prompt_end", "\"\\n\"", "x", no_effect, ""},
    {"sample_input_file", "null", "x", no_effect, ""},
    {"sample_output_file", "samples.txt", "x", no_effect, ""},
    {"num_samples", "1", "3", no_effect, ""},
    {"recompute", "false", "true", no_effect, ""},
    {"eval_results_prefix", "\"\"", "x", no_effect, ""},
    {"eval_tasks", "null", "[lambada]", refused, ""},
    // NeoXArgsMoE
    {"moe_num_experts", "1", "4", refused, ""},
    {"moe_expert_interval", "1", "3", no_effect, ""},
    {"moe_top_k", "1", "3", no_effect, ""},
    {"moe_router_type", "sinkhorn", "topk", no_effect, ""},
    {"moe_lbl_in_fp32", "false", "true", no_effect, ""},
    {"moe_jitter_eps", "null", "0.25", no_effect, ""},
    // NeoXArgsDeepspeedConfig
    {"deepspeed", "true", "false", refused, ""},
    {"train_batch_size", "null", "64", mapped, ""},
    {"train_micro_batch_size_per_gpu", "null", "2", mapped, ""},
    {"gradient_accumulation_steps", "1", "3", mapped, ""},
    {"optimizer", "null", "{params: {lr: 0.3}}", mapped, ""},
    {"scheduler", "null", "{type: WarmupLR}", refused, ""},
    {"fp32_allreduce", "false", "true", mapped, "precision: bfloat16"},
    {"prescale_gradients", "false", "true", no_effect, ""},
    {"gradient_predivide_factor", "1.0", "0.25", no_effect, ""},
    {"sparse_gradients", "false", "true", no_effect, ""},
    {"fp16", "null", "{enabled: true}", mapped, ""},
    {"bf16", "null", "{enabled: true}", mapped, ""},
    {"amp", "null", "{enabled: true}", refused, ""},
    {"gradient_clipping", "1.0", "0.5", mapped, ""},
    {"zero_optimization", "null", "{stage: 1}", mapped, ""},
    {"curriculum_learning", "null", "{enabled: true}", refused, ""},
    {"curriculum_seqlen", "0", "3", no_effect, ""},
    {"steps_per_print", "10", "3", no_effect, ""},
    {"wall_clock_breakdown", "false", "true", no_effect, ""},
    {"dump_state", "false", "true", no_effect, ""},
    {"flops_profiler", "null", "{enabled: true}", no_effect, ""},
    {"communication_data_type", "null", "bf16", mapped, ""},
    {"autotuning", "null", "{enabled: true}", refused, ""},
    {"activation_checkpointing", "null", "{profile: true}", no_effect, ""},
    {"sparse_attention", "null", "{mode: fixed}", refused, ""},
    {"data_efficiency", "null", "{enabled: true}", refused, ""},
    {"tensorboard", "null", "{enabled: true}", no_effect, ""},
    {"wandb", "null", "{enabled: true}", refused, ""},
    {"csv_monitor", "null", "{enabled: true}", no_effect, ""},
    {"elasticity", "null", "{enabled: true}", refused, ""},
    {"comms_logger", "null", "{enabled: true}", no_effect, ""},
    {"compression_training", "null", "{layer_reduction: {enabled: true}}", refused, ""},
    {"checkpoint", "null", "{load_universal: true}", refused, ""},
    {"data_types", "null", "{grad_accum_dtype: bf16}", refused, ""},
    {"deepspeed_extra_args", "null", "{hidden_size: 3}", refused, ""},
    // NeoXArgsDeepspeedRunner
    {"hostfile", "null", "x", no_effect, ""},
    {"include", "null", "x", no_effect, ""},
    {"exclude", "null", "x", no_effect, ""},
    {"num_nodes", "-1", "3", no_effect, ""},
    {"num_gpus", "null", "3", no_effect, ""},
    {"master_port", "29500", "3", no_effect, ""},
    {"master_addr", "null", "x", no_effect, ""},
    {"launcher", "pdsh", "openmpi", no_effect, ""},
    {"force_multi", "false", "true", no_effect, ""},
    {"autotuning_run", "null", "tune", refused, ""},
    {"no_ssh_check", "false", "true", no_effect, ""},
    {"comment", "null", "x", no_effect, ""},
    {"account", "null", "x", no_effect, ""},
};

const NeoxKey kOlderKeys[] = {
    {"gas", "1", "2", refused, ""},
    {"save_interval", "null", "5", mapped, ""},
    {"reset_position_ids", "false", "true", refused, ""},
    {"reset_attention_mask", "false", "true", refused, ""},
    {"label_data_paths", "null", "[a]", refused, ""},
    {"num_experts", "1", "2", refused, ""},
    {"expert_interval", "2", "3", no_effect, ""},
    {"mlp_type", "regular", "llama", refused, ""},
    {"final_norm", "layernorm", "rmsnorm", refused, ""},
    {"detect_nvlink_pairs", "false", "true", no_effect, ""},
    {"initial_loss_scale", "null", "3", no_effect, ""},
    {"moe_token_dropping", "false", "true", no_effect, ""},
    {"zero_allow_untested_optimizer", "false", "true", no_effect, ""},
    {"load_module_strict", "true", "false", no_effect, ""},
};

// Of the groups that DeepSpeed reads.
const NeoxKey kDeepspeedKeys[] = {
    {"fp16", "{enabled: false}", "{enabled: true, type: bfloat16}", mapped, ""},
    {"bf16", "{enabled: false}", "{bf16_optimizer_states: true}", refused, ""},
    {"zero_optimization", "{stage: 0, allgather_partitions: true, reduce_scatter: true, overlap_comm: false}", "{stage: 1, zero_quantized_weights: true}", refused, ""},
    {"zero_optimization", "{stage: 0, contiguous_gradients: false}", "{stage: 3}", mapped, ""},
    {"zero_optimization", "{stage: 0, reduce_bucket_size: 500000000}", "{reduce_bucket_size: 5e8, round_robin_gradients: true}", no_effect, ""},
    {"amp", "{enabled: false, opt_level: O1}", "{enabled: true}", refused, ""},
    {"data_types", "{grad_accum_dtype: fp32}", "{grad_accum_dtype: fp16}", refused, ""},
    {"comms_logger", "{enabled: false}", "{enabled: true, verbose: true, prof_ops: [all_reduce]}", no_effect, ""},
    {"curriculum_learning", "{enabled: false, curriculum_type: seqlen}", "{enabled: true, curriculum_type: seqlen}", refused, ""},
    {"data_efficiency", "{enabled: false}", "{enabled: true, data_sampling: {enabled: true}}", refused, ""},
    {"elasticity", "{enabled: false, max_train_batch_size: 2000}", "{enabled: true}", refused, ""},
    {"eigenvalue", "{enabled: false}", "{enabled: true}", refused, ""},
    {"progressive_layer_drop", "{enabled: false, theta: 0.5}", "{enabled: true}", refused, ""},
    {"soft_prompt_tuning", "{enabled: false, num_tokens: 10}", "{enabled: true, num_tokens: 10}", refused, ""},
    {"wandb", "{enabled: false}", "{enabled: true, project: p}", refused, ""},
    {"checkpoint", "{tag_validation: Warn}", "{load_universal: true}", refused, ""},
    {"deepspeed_extra_args", "{comms_logger: {enabled: false}}", "{comms_logger: {enabled: true}}", no_effect, ""},
    {"deepspeed_extra_args", "{bf16: {enabled: false}}", "{bf16: {enabled: true}}", mapped, ""},
    {"deepspeed_extra_args", "{elasticity: {enabled: false}}", "{zero_optimization: {stage: 2}}", mapped, ""},
};
// clang-format on

class NeoxKeys : public testing::Test {
 protected:
  /// A model of NeoX's, but for the keys that these lines give.
  LoadedConfig load(const std::string& lines) const {
    const char* const base[] = {"num_layers: 4",
                                "hidden_size: 64",
                                "num_attention_heads: 4",
                                "seq_length: 32",
                                "max_position_embeddings: 48",
                                "train_iters: 200",
                                "train_micro_batch_size_per_gpu: 4",
                                "optimizer: {params: {lr: 0.001}}"};
    std::string text;
    for (const std::string line : base) {
      if (("\n" + lines).find("\n" + line.substr(0, line.find(':') + 1)) == std::string::npos) text += line + "\n";
    }
    write_text(folder_ / "a.yml", text + lines);
    return load_config({folder_ / "a.yml"}, {});
  }
  static std::string values(const LoadedConfig& loaded) {
    std::string out = "\n";
    std::istringstream yaml(to_yaml(loaded));
    for (std::string line; std::getline(yaml, line);) out += line.substr(0, line.find("  #")) + "\n";
    return out.substr(out.find("\nmodel:"));
  }
  static std::string line(const NeoxKey& key, const char* value) { return fmt::format("\n{}: {}\n", key.name, value); }

  void expect_defaults_change_nothing(std::span<const NeoxKey> keys) const {
    const std::string plain = values(load(""));
    for (const NeoxKey& key : keys) {
      if (load_needs(key.name)) continue;
      SCOPED_TRACE(line(key, key.default_value));
      try {
        EXPECT_EQ(values(load(line(key, key.default_value))), plain);
      } catch (const Error& e) {
        ADD_FAILURE() << e.what();
      }
    }
  }
  void expect_roles(std::span<const NeoxKey> keys) const {
    const std::string plain = values(load(""));
    for (const NeoxKey& key : keys) {
      const std::string lines = key.besides + line(key, key.other);
      SCOPED_TRACE(lines);
      if (key.role == refused) {
        EXPECT_ERROR(load(lines), ErrorKind::config, std::string(key.name) + (key.other[0] == '{' ? "" : " "));
        continue;
      }
      try {
        const LoadedConfig loaded = load(lines);
        const std::string before = *key.besides == '\0' ? plain : values(load(key.besides));
        EXPECT_EQ(values(loaded) == before, key.role == no_effect);
        const bool told = std::ranges::any_of(loaded.notes, [&](const std::string& note) {
          return note.find(" no effect here") != std::string::npos && note.find(key.name) != std::string::npos;
        });
        EXPECT_TRUE(told == (key.role == no_effect) || std::string(key.name) == "deepspeed_extra_args");
      } catch (const Error& e) {
        ADD_FAILURE() << e.what();
      }
    }
  }

 private:
  /// NeoX has no default for it, and does not start without.
  static bool load_needs(const std::string& name) {
    return name == "num_layers" || name == "hidden_size" || name == "num_attention_heads" || name == "seq_length" ||
           name == "max_position_embeddings" || name == "train_iters" || name == "train_micro_batch_size_per_gpu" ||
           name == "optimizer";
  }
  TemporaryFolder folder_;
};

TEST_F(NeoxKeys, AtTheirDefaultsChangeNothing) {
  expect_defaults_change_nothing(kNeoxKeys);
  expect_defaults_change_nothing(kOlderKeys);
  expect_defaults_change_nothing(kDeepspeedKeys);
}

TEST_F(NeoxKeys, OfOtherValuesAreMappedWithoutEffectOrRefused) {
  expect_roles(kNeoxKeys);
  expect_roles(kOlderKeys);
  expect_roles(kDeepspeedKeys);
}

TEST(GptNeoxKeys, StandOnceAndAreExplainedWithTheirLimits) {
  for (const DialectKey& key : gpt_neox_keys()) {
    EXPECT_NE(key.meaning, "") << key.name;
    EXPECT_TRUE(key.values.empty() || *key.reason != '\0') << key.name;
    EXPECT_EQ(kGptNeox.find(key.name), &key) << key.name << " stands twice";
  }
}

}  // namespace
}  // namespace trireme
