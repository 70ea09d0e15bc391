// Every key of GPT-NeoX's files and of the DeepSpeed part in them: mapped, no effect, or refused.

#include "config/gpt_neox.h"

namespace trireme {
namespace {

using enum DialectRow::Kind;

constexpr const char* kSpeed = "it changes speed or memory, not the results";
constexpr const char* kTracker = "metrics are written to RUN/metrics.jsonl and RUN/tensorboard";
constexpr const char* kMup = "for use_mup";
constexpr const char* kNotHere = "this part of DeepSpeed is not supported; remove it";
constexpr const char* kOff = "only used with enabled: true in its group";
constexpr const char* kRanks = "ranks come from MPI: `trireme launch -f HOSTFILE -- train ...`, `trireme slurm`";
constexpr const char* kNoWandb =
    "Weights & Biases is not supported; metrics are written to RUN/metrics.jsonl and RUN/tensorboard; set false";

constexpr DialectRow kRows[] = {
    {"num_layers=0", same, "model.layers"},
    {"hidden_size=0", same, "model.width"},
    {"num_attention_heads=0", same, "model.heads"},
    {"max_position_embeddings=0", same, "model.context"},
    {"seq_length=0", same, "batch.sequence"},
    {"intermediate_size=0", mapped,
     "model.inner-width (not given: 4 x hidden_size); with a gated activation a third of it, as NeoX computes it"},
    {"mlp_multiple_of=1", mapped,
     "multiple of the inner width: with a gated activation NeoX rounds up to it; otherwise it must divide it"},
    {"num_kv_heads=0", mapped, "model.key-heads"},
    {"norm=layernorm", only, "only layernorm and rmsnorm are supported",
     "model.norm: layernorm or rmsnorm; others are refused", "layernorm|rmsnorm"},
    {"final_norm=layernorm", only, "only layernorm and rmsnorm are supported", "the same as norm; others are refused",
     "layernorm|rmsnorm"},
    {"layernorm_epsilon=1e-5", mapped, "model.norm-epsilon, with layernorm"},
    {"rms_norm_epsilon=1e-8", mapped, "model.norm-epsilon, with rmsnorm"},
    {"scalenorm_epsilon=1e-8", no_effect, "scalenorm is not supported"},
    {"use_qk_layernorm=false", only,
     "NeoX gives queries and keys one norm with a gain per value of every head of a model-parallel rank, which no "
     "other program has; remove it",
     "false; true is refused: its norm of all heads of a rank is NeoX's own"},
    {"pos_emb=learned", only, "only learned and rotary positions are supported",
     "model.position: learned or rotary; others are refused", "learned|rotary"},
    {"rotary_pct=1.0", mapped, "model.rotary-fraction"},
    {"rotary_emb_base=10000.0", mapped, "model.rotary-base"},
    {"rotary_save_freqs_buffer=false", no_effect, "the frequencies are always computed"},
    {"opt_pos_emb_offset=0", same, "model.position-offset"},
    {"rpe_num_buckets=32; rpe_max_distance=128", no_effect, "for relative positions, which are not supported"},
    {"no_weight_tying=false", mapped, "model.tied-head: true means false"},
    {"attention_config", mapped, "global and flash, with the same results, for all layers; others are refused"},
    {"sparsity_config.*=", no_effect, "for sparse attention, which is not supported"},
    {"sliding_window_width=0", mapped,
     "model.window: this + 1, because flash attention does not count the query's own position; only with "
     "attention_config flash"},
    {"make_vocab_size_divisible_by=128", mapped, "model.vocabulary-multiple: this x model_parallel_size"},
    {"padded_vocab_size=0", no_effect, "NeoX sets it"},
    {"activation=gelu", only, "only gelu, relu, silu, swish, swiglu, geglu and reglu are supported",
     "model.activation: gelu (gelu-tanh with bias_gelu_fusion, else gelu-erf), relu, silu, swish; with model.gated: "
     "swiglu, geglu, reglu; others are refused",
     "gelu|relu|silu|swish|swiglu|geglu|reglu"},
    {"bias_gelu_fusion=false", mapped, "see activation"},
    {"gpt_j_residual=false", mapped, "model.residual: true: parallel"},
    {"gpt_j_tied=false", only, "each of the two branches of a parallel residual has its own norm; remove it"},
    {"use_bias_in_norms=true", mapped, "model.norm-bias; rmsnorm has none"},
    {"use_bias_in_attn_linear=true", mapped, "model.qkv-bias and model.attention-out-bias"},
    {"use_bias_in_mlp=true", mapped, "model.mlp-in-bias and model.mlp-out-bias"},
    {"mlp_type=regular", only,
     "older versions of NeoX had it; set activation swiglu instead, with the intermediate_size of newer versions"},
    {"init_method=normal", mapped,
     "model.init-scheme: normal with output_layer_init_method scaled_normal: gpt2, with normal: bert; small_init with "
     "wang_init: neox; other pairs are refused"},
    {"output_layer_init_method=scaled_normal", mapped, "see init_method"},
    {"init_method_std=0.02", mapped,
     "0.02, or 0.006 with normal and scaled_normal: model.init-scheme opt; others are refused"},
    {"use_cpu_initialization=false", no_effect, "weights are always drawn on the CPU"},
    {"output_layer_parallelism=column", only, "NeoX itself fails with row; set column",
     "column; row is refused, as in NeoX"},
    {"num_unique_layers=0", mapped, "num_layers; fewer are refused"},
    {"param_sharing_style=grouped", no_effect, "for num_unique_layers"},
    {"gmlp_attn_dim=64", no_effect, "for layers of gMLP, which are not supported"},
    {"soft_prompt_tuning.enabled=false", only, "soft prompts are not supported; remove it"},
    {"soft_prompt_tuning.*=", no_effect, kOff},
    {"mamba_selective_scan_fusion=false; mamba_causal_conv_fusion=false; mamba_inner_func_fusion=false; "
     "mamba_selective_fp32_params=true; mamba_use_bias_in_conv=true; mamba_use_bias_in_linears=false",
     no_effect, "for layers of Mamba, which are not supported"},
    {"expansion_factor=4.0", mapped, "model.inner-width: this x hidden_size, rounded down"},
    {"dim_att=0; head_size=0; ffn_dim=0", no_effect, "for layers of RWKV, which are not supported"},
    {"num_experts=1; moe_num_experts=1", only, "mixtures of experts are not supported; remove it",
     "1; more are refused"},
    {"moe_expert_interval=1; moe_top_k=1; moe_router_type=sinkhorn; moe_lbl_in_fp32=false; moe_jitter_eps=0.0; "
     "moe_type=megablocks; moe_glu=false; moe_token_dropping=false; moe_use_residual=true; moe_loss_coeff=0.1; "
     "moe_train_capacity_factor=1.0; moe_eval_capacity_factor=1.0; moe_min_capacity=4; "
     "enable_expert_tensor_parallelism=false",
     no_effect, "for moe_num_experts"},
    {"use_mup=false", only, "muP is not supported; remove it"},
    {"coord_check=false; save_base_shapes=false; base_shapes_file=; mup_init_scale=1.0; mup_attn_temp=1.0; "
     "mup_output_temp=1.0; mup_embedding_mult=1.0",
     no_effect, kMup},
    {"mup_rp_embedding_mult=1.0", only, "scaling learned positions is not supported; remove it",
     "1; others are refused, because NeoX multiplies learned positions by it even without use_mup"},
    {"mup_width_scale=2", no_effect, kMup},
    {"te_columnparallel=false; te_rowparallel=false; te_layernorm_mlp=false; te_mha=false; te_fp8_mha=false", only,
     "layers of TransformerEngine are not supported; remove it"},
    {"te_fp8_format=hybrid; te_fp8_wgrad=true; te_fp8_amax_history_len=1; te_fp8_amax_compute_algo=most_recent; "
     "te_fp8_margin=0",
     no_effect, "for 8-bit layers of TransformerEngine"},
    {"serve_model_weights=false", only,
     "serving weights is not supported; remove it, and use the snapshots of the run"},
    {"weight_server_port=6000; online_dataserver_ips=localhost; online_dataserver_ports=10000", no_effect,
     "for data and weights that other programs serve"},
    {"use_flashattn_swiglu=false", no_effect, kSpeed},
    {"fused_kernels_build_path=", no_effect, "for GPU kernels"},
    {"scaled_upper_triang_masked_softmax_fusion=false; scaled_masked_softmax_fusion=false; bias_dropout_fusion=false; "
     "rope_fusion=false; layernorm_fusion=false; rmsnorm_fusion=false",
     no_effect, kSpeed},
    {"attention_softmax_in_fp32=false", no_effect, "softmax is always computed in f32"},
    {"apply_query_key_layer_scaling=false", no_effect, "the scores are mathematically the same and never in fp16 here"},
    {"fp16_lm_cross_entropy=false", only, "the loss is always computed in f32; remove it"},
    {"onnx_safe=false", no_effect, "nothing is exported to ONNX"},
    {"hidden_dropout=0.0", same, "model.dropout", "model.dropout: of embeddings and residual branches"},
    {"attention_dropout=0.0", mapped, "model.attention-dropout"},
    {"pipe_parallel_size=0", mapped,
     "mesh.pipeline; 0 and 1 both mean one stage (in NeoX without and with its pipeline engine)"},
    {"model_parallel_size=1", same, "mesh.tensor"},
    {"pipe_partition_method=type:transformer|mlp", no_effect, "it says which rank computes a layer"},
    {"sequence_parallel=false", mapped, "mesh.sequence; as in NeoX, no effect if one rank has a whole layer"},
    {"expert_interval=2", no_effect, "mixtures of experts are not supported"},
    {"world_size=0; global_num_gpus=0", no_effect, kRanks},
    {"is_pipe_parallel=false", no_effect, "NeoX sets it"},
    {"train_batch_size=0", mapped, "batch.global"},
    {"train_micro_batch_size_per_gpu=0", mapped,
     "batch.micro; one or two of train_batch_size, this and gradient_accumulation_steps determine the rest, and all "
     "three must agree"},
    {"gradient_accumulation_steps=1", mapped,
     "batch.accumulation, or with train_micro_batch_size_per_gpu alone batch.per-rank"},
    {"batch_size=0", no_effect, "NeoX sets it"},
    {"gas=1", mapped,
     "gradient_accumulation_steps; another number is refused, because older versions of NeoX ignored gas"},
    {"optimizer.type=Adam", mapped, "Adam or AdamW, both with decoupled decay; others are refused"},
    {"optimizer.params.lr=0.001", mapped, "optim.learning-rate"},
    {"optimizer.params.betas", mapped, "optim.beta1 and optim.beta2 (not given: 0.9, 0.999)"},
    {"optimizer.params.eps=1e-8", mapped, "optim.epsilon"},
    {"optimizer.params.weight_decay=0.0", mapped,
     "optim.weight-decay in a DeepSpeed file; in a NeoX file, set weight_decay"},
    {"optimizer.params.bias_correction=true", only, "AdamW always corrects the bias of its moments; remove it"},
    {"optimizer.params.adam_w_mode=true", only, "weight decay is always decoupled; remove it"},
    {"optimizer.params.amsgrad=false", only, "the optimizer is AdamW without AMSGrad; remove it"},
    {"optimizer.params.momentum=0.0", only, "the optimizer is AdamW, which has betas; remove it",
     "0; it belongs to other optimizers"},
    {"optimizer.params.freeze_step=400; optimizer.params.cuda_aware=false", no_effect,
     "for the optimizer OneBitAdam, which is not supported"},
    {"optimizer.params.max_grad_norm=0.0", refused, "set gradient_clipping instead, and remove this"},
    {"optimizer.params.torch_adam=true; optimizer.params.fused=true", no_effect, kSpeed},
    {"optimizer_type=adam", no_effect, "derived from optimizer.type"},
    {"lr=0.0", no_effect, "derived from optimizer.params.lr"},
    {"use_bnb_optimizer=false", only, "the optimizer state is always in f32; remove it"},
    {"weight_decay=0.1", mapped, "optim.weight-decay"},
    {"gradient_clipping=1.0", mapped,
     "optim.clip; in NeoX's files, 1.0, the default, never reaches DeepSpeed and means no clipping (in DeepSpeed's "
     "files it does)"},
    {"clip_grad=1.0", no_effect, "derived from gradient_clipping"},
    {"zero_optimization.stage=0", mapped, "optim.shard: none, optimizer, gradients, parameters"},
    {"zero_optimization.allgather_partitions=false; zero_optimization.reduce_scatter=false; "
     "zero_optimization.overlap_comm=false; zero_optimization.contiguous_gradients=false; "
     "zero_optimization.round_robin_gradients=false; zero_optimization.load_from_fp32_weights=false; "
     "zero_optimization.cpu_offload=false; zero_optimization.sub_group_size=0; "
     "zero_optimization.ignore_unused_parameters=false; zero_optimization.elastic_checkpoint=false; "
     "zero_optimization.stage3_max_live_parameters=0; zero_optimization.stage3_max_reuse_distance=0; "
     "zero_optimization.stage3_prefetch_bucket_size=0; zero_optimization.stage3_param_persistence_threshold=0; "
     "zero_optimization.stage3_gather_16bit_weights_on_model_save=0; "
     "zero_optimization.stage3_model_persistence_threshold=0; "
     "zero_optimization.stage3_gather_fp16_weights_on_model_save=false; "
     "zero_optimization.stage3_module_granularity_threshold=0; "
     "zero_optimization.stage3_use_all_reduce_for_fetch_params=false; "
     "zero_optimization.param_persistence_threshold=100000; zero_optimization.model_persistence_threshold=0; "
     "zero_optimization.max_live_parameters=1000000000; zero_optimization.max_reuse_distance=1000000000; "
     "zero_optimization.prefetch_bucket_size=50000000; zero_optimization.gather_16bit_weights_on_model_save=false; "
     "zero_optimization.use_multi_rank_bucket_allreduce=true; zero_optimization.use_all_reduce_for_fetch_params=false; "
     "zero_optimization.cpu_offload_params=false; zero_optimization.cpu_offload_param=false; "
     "zero_optimization.cpu_offload_use_pin_memory=false; zero_optimization.grad_hooks=true; "
     "zero_optimization.legacy_stage1=false; zero_optimization.pipeline_loading_checkpoint=false; "
     "zero_optimization.override_module_apply=true; zero_optimization.log_trace_cache_warnings=false; "
     "zero_optimization.zero_hpz_partition_size=1; zero_optimization.mics_shard_size=-1; "
     "zero_optimization.mics_hierarchical_params_gather=false",
     no_effect, kSpeed},
    {"zero_optimization.zero_quantized_weights=false; zero_optimization.zero_quantized_nontrainable_weights=false; "
     "zero_optimization.zero_quantized_gradients=false",
     only, "weights and gradients are sent in bf16 or f32; remove it"},
    {"zero_optimization.memory_efficient_linear=false", no_effect, kSpeed},
    {"zero_optimization.allgather_bucket_size=500000000; zero_optimization.reduce_bucket_size=500000000", no_effect,
     "comm.bucket-mb is the size of the exchange's buckets"},
    {"zero_optimization.offload_optimizer.*=; zero_optimization.offload_param.*=", no_effect,
     "weights and optimizer state are already in the host's memory"},
    {"zero_stage=0; zero_reduce_scatter=false; zero_contiguous_gradients=false; zero_reduce_bucket_size=0; "
     "zero_allgather_bucket_size=0",
     no_effect, "derived from zero_optimization"},
    {"zero_allow_untested_optimizer=false", no_effect, "the optimizer is AdamW"},
    {"scheduler.*=", refused,
     "DeepSpeed's schedules are not supported; remove it and set lr_decay_style, lr_decay_iters, warmup and min_lr"},
    {"lr_decay_style=linear", mapped, "optim.schedule, with optim.schedule-form neox"},
    {"lr_decay_iters=0", same, "optim.decay-steps", "optim.decay-steps (not given: train_iters)"},
    {"lr_decay_fraction=1.0", mapped,
     "optim.decay-steps: this fraction of train_iters, if lr_decay_iters is not given"},
    {"min_lr=0.0", mapped, "optim.min-learning-rate"},
    {"warmup=0.01", mapped,
     "optim.warmup-fraction: a fraction of lr_decay_iters, not rounded; 0: optim.warmup-steps 0"},
    {"override_lr_scheduler=false", no_effect, "the schedule always comes from the configuration"},
    {"use_checkpoint_lr_scheduler=false", only,
     "the schedule always comes from the configuration; remove it and set the required values"},
    {"precision=fp32", mapped, "precision.dtype: fp16 (on GPUs), bfloat16, fp32"},
    {"fp16.enabled=false", mapped, "precision.dtype f16, on GPUs; on CPUs add --precision.dtype bf16"},
    {"fp16.fp16=false", no_effect, "GPT-NeoX reads fp16.enabled"},
    {"fp16.type=fp16", only, "expected fp16 or bfloat16",
     "precision.dtype: bfloat16, an older spelling of precision bfloat16; fp16", "fp16|bfloat16"},
    {"fp16.auto_cast=false", no_effect, "the inputs are token ids, which are not cast"},
    {"fp16.loss_scale=0", mapped, "precision.loss-scale"},
    {"fp16.initial_scale_power=16", mapped, "precision.loss-scale-initial: 2 to this power"},
    {"fp16.loss_scale_window=1000", mapped, "precision.loss-scale-window"},
    {"fp16.hysteresis=2", mapped, "precision.loss-scale-hysteresis"},
    {"fp16.consecutive_hysteresis=false", mapped, "precision.loss-scale-refill"},
    {"fp16.min_loss_scale=1", mapped, "precision.loss-scale-min"},
    {"fp16.fp16_master_weights_and_grads=false", only,
     "master weights and sums of gradients are always in f32; remove it"},
    {"bf16.enabled=false", mapped, "precision.dtype bf16"},
    {"bf16.immediate_grad_update=false", no_effect, kSpeed},
    {"bf16.check_grad_overflow=false", no_effect, "steps with gradients that are not finite are skipped"},
    {"bf16.bf16_master_weights_and_grads=false", only,
     "master weights and sums of gradients are always in f32; remove it"},
    {"bf16.bf16_optimizer_states=false", only, "the optimizer state is always in f32; remove it"},
    {"fp32_allreduce=false", mapped, "comm.wire f32"},
    {"data_types.grad_accum_dtype=fp32", only, "gradients are summed in f32; set fp32"},
    {"loss_scale=0.0; dynamic_loss_scale=false; initial_loss_scale=0.0; loss_scale_window=1000.0; hysteresis=2; "
     "min_scale=1.0",
     no_effect, "the loss scale of fp16 comes from the keys of fp16"},
    {"amp.enabled=false", only, "apex's mixed precision is not supported; set precision bfloat16"},
    {"amp.*=", no_effect, kOff},
    {"communication_data_type=fp32", only, "expected fp32, bf16 or fp16",
     "comm.wire: fp32, bf16 (bfp16) or fp16, which is bf16 here", "fp32|fp16|bf16|bfp16"},
    {"prescale_gradients=false; gradient_predivide_factor=1.0", no_effect, "gradients are summed in f32"},
    {"sparse_gradients=false", no_effect, kSpeed},
    {"train_iters=0", same, "run.steps"},
    {"train_epochs=0", refused, "set train_iters: an epoch is tokens / (train_batch_size x seq_length) steps"},
    {"train_impl=normal", only,
     "only training on the loss of the next token is supported; `trireme dpo` trains on preferences"},
    {"dpo_fp32=true; dpo_reference_free=false; dpo_beta=0.1; kto_fp32=true; kto_desirable_weight=1.0; "
     "kto_undesirable_weight=1.0; kto_beta=0.1; z_loss=0.0; fp32_reinforce=true; kl_impl=mse; kl_div_beta=0.1; "
     "reinforce_leave_one_out=false",
     no_effect, "for other kinds of training (train_impl)"},
    {"eval_interval=1000", mapped, "evaluation.every"},
    {"eval_iters=100", mapped, "evaluation.batches, of which each evaluation reads the next ones"},
    {"exit_interval=0", only,
     "set train_iters to the last step of this run; the same command with more train_iters resumes from there",
     "0: none; others are refused"},
    {"seed=1234", mapped, "run.seed"},
    {"checkpoint_activations=false", same, "model.recompute"},
    {"checkpoint_num_layers=1; partition_activations=false; synchronize_each_layer=false; checkpoint_in_cpu=false; "
     "contiguous_checkpointing=false; deepspeed_activation_checkpointing=true; profile_backward=false; "
     "activation_checkpointing.*=",
     no_effect, "with checkpoint_activations, each block keeps only its input and is recomputed"},
    {"num_workers=2", no_effect, "samples are read from mapped files"},
    {"eod_mask_loss=false", mapped,
     "data.mask-end-of-text; refused unless optim.loss-mean is given (micro-batches as in NeoX)"},
    {"finetune=false", mapped, "true: model.init is the folder of load: its weights, in a new run"},
    {"char_level_ppl=false", only, "only the perplexity of tokens is supported; remove it"},
    {"reset_position_ids=false", only, "positions are always counted from the start of a sample; remove it"},
    {"reset_attention_mask=false", only, "a token attends to all tokens before it in its sample; remove it"},
    {"short_seq_prob=0.1", no_effect, "it is for models other than GPT"},
    {"adlr_autoresume=false", only, "it works only on NVIDIA's own clusters; `trireme slurm` resumes jobs"},
    {"adlr_autoresume_interval=1000", no_effect, "for adlr_autoresume"},
    {"lazy_mpu_init=false; deepscale=false; deepscale_config=; local_rank=0; rank=0; user_script=", no_effect,
     "NeoX or its cluster sets it"},
    {"iteration=0", mapped,
     "checkpoint.resume: global_stepN or step-N in the folder `load`, even if its `latest` names another step"},
    {"do_train=false; do_valid=false; do_test=false", no_effect, "NeoX or its cluster sets it"},
    {"config_files.*=", no_effect, "NeoX sets it"},
    {"save_iters", no_effect, "NeoX or its cluster sets it"},
    {"data_path=", mapped, "data.train, with split: data.split"},
    {"split=969, 30, 1", mapped, "data.split, with data_path; the third share is for the test after the last step"},
    {"train_data_paths", mapped, "data.train, with train_data_weights"},
    {"train_data_weights", mapped, "see train_data_paths (not given: equal)"},
    {"valid_data_paths", mapped, "data.validation, with valid_data_weights"},
    {"valid_data_weights", mapped, "see valid_data_paths (not given: equal)"},
    {"test_data_paths", mapped, "data.test, with test_data_weights"},
    {"test_data_weights", mapped, "see test_data_paths (not given: equal)"},
    {"label_data_paths; train_label_data_paths; valid_label_data_paths; test_label_data_paths", refused,
     "token files with labels are not supported; `trireme sft` learns what the assistant says in conversations"},
    {"train_reward_data_paths; valid_reward_data_paths; test_reward_data_paths", refused,
     "for other kinds of data (dataset_impl, train_impl), which are not supported; remove it"},
    {"pos_train_data_paths; pos_train_label_data_paths; neg_train_data_paths; neg_train_label_data_paths; "
     "pos_valid_data_paths; pos_valid_label_data_paths; neg_valid_data_paths; neg_valid_label_data_paths; "
     "pos_test_data_paths; pos_test_label_data_paths; neg_test_data_paths; neg_test_label_data_paths; "
     "precompute_model_name=",
     refused,
     "pairs of token files are not supported; `trireme dpo` learns from rows with \"chosen\" and \"rejected\""},
    {"weight_by_num_documents=false", mapped,
     "false; true is accepted only if each of the three parts has a single path, which then has the weight 1"},
    {"weighted_sampler_alpha=1.0", no_effect, "for weight_by_num_documents"},
    {"data_impl=infer", no_effect, "the format is recognised from the dataset"},
    {"dataset_impl=gpt2", only, "samples are windows of one stream of tokens; other datasets are not supported"},
    {"pack_impl=packed", only, "samples are windows of one stream of tokens; set packed"},
    {"allow_chopped=true", only, "samples are windows of one stream of tokens; remove it"},
    {"mmap_warmup=false", no_effect, "files are mapped and read as they are needed"},
    {"use_shared_fs=true", mapped, "true; false is refused unless data.index-dir is given"},
    {"tokenizer_type=GPT2BPETokenizer", mapped,
     "GPT2BPETokenizer, HFTokenizer or CharLevelTokenizer; others are refused"},
    {"vocab_file=", mapped, "data.tokenizer"},
    {"merge_file=", mapped, "data.merges"},
    {"save=", mapped, "run.dir; a folder with NeoX's own checkpoints is refused"},
    {"load=", mapped,
     "checkpoint.resume: the folder's newest snapshot, or NeoX's own newest checkpoint; without either, the run starts "
     "from scratch"},
    {"checkpoint_factor=0", same, "checkpoint.every"},
    {"save_interval=0", mapped, "checkpoint.every: the older name of checkpoint_factor"},
    {"checkpoint_scale=linear", only, "set linear, and name additional steps with extra_save_iters",
     "linear; log is refused"},
    {"extra_save_iters", mapped, "checkpoint.also"},
    {"keep_last_n_checkpoints=0", mapped, "checkpoint.keep (not given: all)"},
    {"no_save_optim=false", only, "snapshots hold the optimizer's state; `trireme export` writes weights alone"},
    {"no_load_optim=false", only, "to start from the weights alone, use --model.init FOLDER"},
    {"no_save_rng=false; no_load_rng=false", no_effect, "random numbers follow from run.seed and the step"},
    {"checkpoint_validation_with_forward_pass=false", no_effect,
     "the checksums of snapshots are always checked at loading"},
    {"load_module_strict=true", no_effect, "missing tensors are always errors"},
    {"s3_path=", refused, "snapshots are not uploaded; remove it"},
    {"s3_chunk_size=104857600", no_effect, "snapshots are not uploaded"},
    {"log_interval=100", mapped, "log.every"},
    {"peak_theoretical_tflops=0.0", same, "log.peak-tflops"},
    {"steps_per_print=10", no_effect, "log.every sets how often a line is printed"},
    {"wall_clock_breakdown=false", no_effect, "--log.profile N times every operator"},
    {"log_dir=", no_effect, "RUN/metrics.jsonl and RUN/tensorboard are the log"},
    {"tensorboard_dir=", no_effect, "the files are in RUN/tensorboard"},
    {"log_grad_norm=false", no_effect, "the gradient's norm is always logged"},
    {"memory_profiling_path=", no_effect, "for memory_profiling"},
    {"profile_step_start=10; profile_step_stop=12", no_effect, "for profile"},
    {"gradient_noise_scale_n_batches=5; gradient_noise_scale_cpu_offload=false", no_effect,
     "for log_gradient_noise_scale"},
    {"git_hash=", no_effect, "the version of this program is logged"},
    {"dump_state=false", no_effect, "`config show` prints the configuration"},
    {"memory_breakdown=false", no_effect, "the required memory is printed before the first step"},
    {"log_grad_pct_zeros=false; log_param_norm=false; log_optimizer_states=false; log_gradient_noise_scale=false", only,
     "logging it is not supported; remove it"},
    {"memory_profiling=false", only, "remove it; the required memory is printed before the first step"},
    {"profile=false", only, "remove it and add --log.profile 5, which times every operator"},
    {"use_wandb=false", only, kNoWandb},
    {"use_comet=false", only,
     "Comet is not supported; metrics are written to RUN/metrics.jsonl and RUN/tensorboard; set false"},
    {"wandb_group=; wandb_team=; wandb_project=; wandb_host=; wandb_run_name=; wandb_init_all_ranks=false; "
     "comet_workspace=; comet_project=; comet_experiment_name=; comet_others.*=; comet_tags=; comet_experiment=; "
     "flops_profiler.*=; tensorboard.*=; csv_monitor.*=",
     no_effect, kTracker},
    {"wandb.enabled=false", only, kNoWandb},
    {"wandb.*=; comms_logger.*=; monitor_config.*=", no_effect, kTracker},
    {"hostfile=; include=; exclude=; num_nodes=-1; num_gpus=0; master_addr=; master_port=29500; launcher=pdsh; "
     "deepspeed_mpi=false; deepspeed_slurm=false; force_multi=false; no_ssh_check=false; comment=; account=; "
     "detect_nvlink_pairs=false; distributed_backend=nccl",
     no_effect, kRanks},
    {"autotuning_run=", refused, "autotuning is not supported; remove it"},
    {"deepspeed_config_file=", no_effect, kRanks},
    {"deepspeed=true", only, "NeoX itself fails without DeepSpeed; remove it", "true; false is refused, as in NeoX"},
    {"autotuning.enabled=false", only, "autotuning is not supported; remove it"},
    {"autotuning.*=", no_effect, kOff},
    {"deepspeed_extra_args.gradient_clipping=0.0", mapped, "optim.clip: this key does reach DeepSpeed"},
    {"deepspeed_extra_args.*=", mapped, "the keys of DeepSpeed in this table, as in a ds_config.json"},
    {"elasticity.enabled=false", only, kNotHere},
    {"elasticity.*=", no_effect, kOff},
    {"aio.*=", no_effect, kSpeed},
    {"data_efficiency.enabled=false", only, kNotHere},
    {"data_efficiency.*=", no_effect, kOff},
    {"curriculum_learning.enabled=false", only, kNotHere},
    {"curriculum_learning.*=", no_effect, kOff},
    {"curriculum_seqlen=0", no_effect, "NeoX sets it, for curriculum_learning"},
    {"compression_training.*=", refused, kNotHere},
    {"eigenvalue.enabled=false", only, kNotHere},
    {"eigenvalue.*=", no_effect, kOff},
    {"progressive_layer_drop.enabled=false", only, kNotHere},
    {"progressive_layer_drop.*=", no_effect, kOff},
    {"sparse_attention.*=", refused, kNotHere},
    {"checkpoint.load_universal=false", only, "DeepSpeed's universal checkpoints are not supported; remove it"},
    {"checkpoint.tag_validation=Warn; checkpoint.use_node_local_storage=false; "
     "checkpoint.parallel_write.pipeline_stage=false",
     no_effect, "it changes how DeepSpeed writes its files, not their contents"},
    {"text_gen_type=unconditional; temperature=0.0; top_k=0; top_p=0.0; return_logits=false; maximum_tokens=64; "
     "prompt_end=\\n; sample_input_file=; sample_output_file=samples.txt; num_samples=1; recompute=false",
     no_effect, "it is for generating or evaluating text: `trireme sample`"},
    {"eval_results_prefix=", no_effect, "for eval_tasks"},
    {"eval_tasks", refused,
     "tasks of lm-evaluation-harness are not supported; remove it, and run the harness on the output of `trireme "
     "export`"},
    {"eval_task_limit=0", no_effect, "for eval_tasks"},
};

}  // namespace

std::span<const DialectKey> gpt_neox_keys() {
  static const std::vector<DialectKey> keys = dialect_keys(kRows);
  return keys;
}

}  // namespace trireme
