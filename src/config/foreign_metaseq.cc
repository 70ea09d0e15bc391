// metaseq's flags as typed after `train` and `slurm`: those of its launcher (opt-baselines) and of its train.py with
// the model, task, optimizer and schedules of OPT, from May 2022 to its last version of June 2023. docs/opt-slurm.md.

#include "config/foreign_options.h"

namespace trireme {
namespace {

using enum ForeignOption::Kind;

constexpr ForeignOption renamed(const char* name, const char* native) { return {"train", name, same, native}; }
constexpr ForeignOption instead(const char* name, const char* text) { return {"train", name, elsewhere, text}; }
constexpr ForeignOption idle(const char* name, const char* why) { return {"train", name, no_effect, why}; }
constexpr ForeignOption idle_switch(const char* name, const char* why) {
  return {"train", name, no_effect, why, nullptr, true};
}
constexpr ForeignOption launcher(const char* name, const char* text) { return {"slurm", name, elsewhere, text}; }

constexpr const char* kSlurm = "`trireme slurm --nodes N --ntasks-per-node G --partition P --submit -- train ...`";
constexpr const char* kLaunch = "`mpirun -n N trireme train ...`, or `trireme launch -f HOSTFILE -- train ...`";
constexpr const char* kLaunched = "nothing, because `mpirun` or `trireme launch` decides the number of ranks";
constexpr const char* kSteps = "--run.steps N: an epoch is tokens / (batch.global x batch.sequence) steps";
constexpr const char* kNoSweeps = "a separate run for each set of values: sweeps are not supported";
constexpr const char* kPreset = "--model.preset opt-125m, or configs/opt-125m.yaml, and so on";
constexpr const char* kDir = "--run.dir DIR";
constexpr const char* kLog = "RUN/metrics.jsonl, which has every step, or `... 2>&1 | tee FILE`";
constexpr const char* kTracker = "it is not supported; metrics are in RUN/metrics.jsonl and RUN/tensorboard";
constexpr const char* kPrecision =
    "--precision.dtype bf16 (or f32), or, on a GPU, f16 with --precision.loss-scale-rule metaseq";
constexpr const char* kBatch =
    "--batch.micro N: sequences per rank and micro-batch; --batch.global N: sequences per step";
constexpr const char* kNoTokenBatch = "--batch.micro N: batches are counted in sequences";
constexpr const char* kValidation = "--evaluation.batches N with the batch of training";
constexpr const char* kSets = "--data.train and --data.validation, which names the only validation set";
constexpr const char* kLoader = "token files are mapped into memory; no process loads them";
constexpr const char* kShard =
    "--optim.shard parameters (fully_sharded), gradients (with no-reshard-after-forward), or none";
constexpr const char* kFsdp = "it only changes how FSDP or DDP works, not the results";
constexpr const char* kGpu = "it is only for GPUs or torch's kernels";
constexpr const char* kOnGpu = "nothing, because weights and optimizer state stay on the device";
constexpr const char* kWeightsAlone =
    "--model.init PATH: its weights, with a new optimizer, schedule and order of samples";
constexpr const char* kResume = "--checkpoint.resume PATH, or --model.init PATH for the weights alone";
constexpr const char* kEpochs = "--checkpoint.every N: counted in steps";
constexpr const char* kBest = "--checkpoint.best, which keeps the snapshot of the lowest validation loss";
constexpr const char* kFinalSave =
    "nothing, because the last step is always saved; --checkpoint.every 0 saves no other";
constexpr const char* kComplete =
    "nothing, because a run resumes with the optimizer state of its snapshot; `trireme export` writes the weights "
    "alone";
constexpr const char* kUpload =
    "--checkpoint.local DIR for snapshots on a local disk, copied to --run.dir; nothing is uploaded";
constexpr const char* kEvalAfter = "--evaluation.every N: during training";
constexpr const char* kEma = "nothing, because no moving average of the weights is kept";
constexpr const char* kRecompute = "--model.recompute full";
constexpr const char* kPositions = "--model.position learned or rotary";
constexpr const char* kInit = "--model.init-scheme opt";
constexpr const char* kNoOther = "nothing, because only OPT's form is implemented";
constexpr const char* kTokenizer =
    "`trireme prepare --tokenizer ...`, which tokenizes before training; --data.dir is its output";
constexpr const char* kObjective = "nothing, because causal language modeling is the only objective";
constexpr const char* kCorpora = "--data.train \"0.7 a_text_document 0.3 b_text_document\"";
constexpr const char* kCut = "nothing, because samples are cut from the text end to end, like sample-break-mode none";
constexpr const char* kSpikes = "--run.on-spike skip with --run.spike-score";
constexpr const char* kAdam = "nothing, because AdamW is the only optimizer";
constexpr const char* kSchedule = "--optim.schedule linear, polynomial, cosine or inverse-sqrt";
constexpr const char* kFromZero = "nothing, because warm-up begins with the first step, at lr / (W + 1)";
constexpr const char* kPeriods = "--optim.schedule cosine-with-restarts with --optim.restarts N";
constexpr const char* kNoPlugins = "nothing, because modules cannot be loaded";

constexpr ForeignOption kOptions[] = {
    // the launcher
    instead("--model_size", kPreset),
    renamed("--max_update", "--run.steps"),
    renamed("--mu", "--run.steps"),
    instead("--max_epoch", kSteps),
    instead("--me", kSteps),
    instead("--checkpoints_dir", kDir),
    renamed("--local_checkpoints_dir", "--checkpoint.local"),
    instead("--prefix", kDir),
    instead("-p", kDir),
    instead("--data", "--data.dir DIR, with train.bin and val.bin"),
    instead("--num_gpus", kLaunch),
    instead("-g", kLaunch),
    instead("--num_nodes", kLaunch),
    instead("-n", kLaunch),
    instead("--num_trials", kNoSweeps),
    instead("-t", kNoSweeps),
    instead("--grid", kNoSweeps),
    instead("--benchmark", "`trireme bench step --preset opt-125m`, or --run.steps 50 --log.every 5"),
    instead("--no_save_dir", "--checkpoint.every 0: only at the end"),
    idle_switch("--resume_failed", "the same command always resumes a run from its last snapshot"),
    instead("--no_tensorboard", "--log.tensorboard false"),
    idle_switch("--no_wandb", "nothing is sent to wandb"),
    instead("--azure", kSlurm),
    instead("--aws", kSlurm),
    instead("--fair", kSlurm),
    instead("--rsc", kSlurm),
    instead("--circleci", kSlurm),
    instead("--local", kLaunch),
    instead("--salloc", kSlurm),
    instead("--partition", kSlurm),
    instead("--reservation", kSlurm),
    instead("--exclusive", kSlurm),
    instead("--time", kSlurm),
    instead("--mem", kSlurm),
    instead("--constraint", kSlurm),
    instead("--comment", kSlurm),
    instead("--cpus_per_task", kSlurm),
    instead("--cpu_bind", kSlurm),
    instead("--dry_run", "`trireme config show ...` with the same arguments, or `trireme slurm` without --submit"),
    instead("--debug", "--verbose"),
    instead("--script", kSlurm),
    instead("--python", "nothing, because trireme is one program without Python"),
    idle_switch("--snapshot_code", "the program is one file; snapshots hold its version and the configuration"),
    idle("--snapshot_root", "no code is copied"),
    idle("--snapshot_recurse_dirs_internal", "no code is copied"),
    idle("--snapshot_recurse_dirs_oss", "no code is copied"),
    instead("--post_steps", "the job's script: `trireme slurm --write FILE -- train ...` writes it"),
    instead("--full_azure_upload_path", kUpload),
    instead("--azure_folder_auto_name", kUpload),
    instead("--tombstonable", "`trireme stop RUN`"),
    instead("-ts", "`trireme stop RUN`"),
    // CommonConfig
    instead("--log_interval", "--log.every N (nanoGPT's keys: --dialect nanogpt)"),
    idle("--log_format", "one line per step is printed, and RUN/metrics.jsonl has the same as JSON"),
    instead("--log_file", kLog),
    instead("--tensorboard_logdir", "--log.tensorboard: the files are in RUN/tensorboard"),
    idle("--aim_repo", kTracker),
    idle("--aim_run_hash", kTracker),
    idle("--wandb_project", kTracker),
    idle_switch("--azureml_logging", kTracker),
    instead("--seed_per_rank", "--run.seed N: the random numbers of all ranks follow from it"),
    ForeignOption{"train", "--cpu", same, "--run.device=cpu", nullptr, true},
    instead("--memory_efficient_fp16", kPrecision),
    instead("--fp16", kPrecision),
    instead("--bf16", "--precision.dtype bf16"),
    idle_switch("--fp16_no_flatten_grads", "gradients always lie in one array"),
    renamed("--fp16_init_scale", "--precision.loss-scale-initial"),
    renamed("--fp16_scale_window", "--precision.loss-scale-window"),
    idle("--fp16_scale_tolerance", "every overflow in f16 lowers the loss scale, as with metaseq's default of 0"),
    renamed("--min_loss_scale", "--precision.loss-scale-min"),
    renamed("--threshold_loss_scale", "--precision.loss-scale-min"),
    instead("--user_dir", kNoPlugins),
    idle("--empty_cache_freq", kGpu),
    idle("--all_gather_list_size", "messages between ranks have any size"),
    renamed("--model_parallel_size", "--mesh.tensor"),
    renamed("--profile", "--log.profile"),
    instead("--new_profiler", "--log.profile 5"),
    idle_switch("--use_plasma_view", kLoader),
    idle("--plasma_path", kLoader),
    idle_switch("--log_nvidia_smi", kGpu),
    idle_switch("--quiet_logs", "norms of single parameters are not logged"),
    idle_switch("--dont_log_param_and_grad_norm", "norms of single parameters are not logged"),
    idle_switch("--no_progress_bar", "one line per step is printed"),
    instead("--dynamic_config_path", "a configuration file, which is read only once"),
    instead("--dynamic_config_timeout", "a configuration file, which is read only once"),
    // DistributedTrainingConfig
    instead("--distributed_world_size", kLaunch),
    instead("--distributed_rank", kLaunched),
    idle("--distributed_backend", "the build and the launcher determine how ranks communicate"),
    instead("--distributed_init_method", kLaunched),
    instead("--distributed_port", kLaunched),
    instead("--device_id", kLaunched),
    instead("--local_rank", kLaunched),
    instead("--distributed_no_spawn", kLaunched),
    instead("--ddp_backend", kShard),
    instead("--task_ddp_backend", kShard),
    renamed("--bucket_cap_mb", "--comm.bucket-mb"),
    idle_switch("--fix_batches_to_gpus", "the samples of a step do not depend on the ranks"),
    idle_switch("--find_unused_parameters", kFsdp),
    idle_switch("--fast_stat_sync", "metaseq itself does not read it"),
    idle_switch("--broadcast_buffers", "the models have no buffers that are not parameters"),
    instead("--no_reshard_after_forward", "--optim.shard gradients"),
    instead("--fp32_reduce_scatter", "--comm.wire f32"),
    instead("--cpu_offload", kOnGpu),
    idle_switch("--use_sharded_state", "snapshots are written by all ranks and read by any number of them"),
    instead("--gradient_predivide_factor", "nothing, because gradients are summed in f32, which does not overflow"),
    instead("--zero_sharding", "--optim.shard optimizer"),
    instead("--heartbeat_timeout", "--run.hang-timeout SECONDS"),
    // DatasetConfig
    idle("--num_workers_valid", kLoader),
    instead("--skip_invalid_size_inputs_valid_test", kCut),
    instead("--max_tokens", kNoTokenBatch),
    instead("--batch_size",
            "--batch.micro N: sequences per rank and micro-batch; --batch.global N: sequences per step "
            "(nanoGPT's keys: --dialect nanogpt)"),
    instead("--max_sentences", kBatch),
    idle("--required_batch_size_multiple", "every batch has exactly the size of the configuration"),
    instead("--dataset_impl", "nothing, because a data file names its format"),
    idle("--data_buffer_size", kLoader),
    instead("--skip_batches", kSpikes),
    instead("--train_subset", kSets),
    instead("--valid_subset", kSets),
    instead("--combine_valid_subsets", kSets),
    instead("--combine_val", kSets),
    idle_switch("--ignore_unused_valid_subsets", "only the set of data.validation is read"),
    renamed("--validate_interval_updates", "--evaluation.every"),
    instead("--validate_interval", kEvalAfter),
    instead("--validate_after_updates", "--evaluation.every N, from the first step on"),
    instead("--fixed_validation_seed", "nothing, because evaluations always use the same windows"),
    instead("--disable_validation", "--evaluation.every 0: only at the end"),
    instead("--max_tokens_valid", kValidation),
    instead("--batch_size_valid", kValidation),
    instead("--max_sentences_valid", kValidation),
    instead("--max_valid_steps", "--evaluation.batches N"),
    instead("--nval", "--evaluation.batches N"),
    idle("--gen_subset", "only generation uses it"),
    idle("--num_shards", "only generation uses it"),
    idle("--shard_id", "only generation uses it"),
    // OptimizationConfig
    renamed("--clip_norm", "--optim.clip"),
    {"train", "--clip_norm_type=l2", no_effect, "the norm is always L2"},
    instead("--clip_norm_type", "--optim.clip, for the L2 norm"),
    instead("--skip_gradient_update_on_clip_norm", kSpikes),
    instead("--ewm_ratio_to_skip_batch", kSpikes),
    renamed("--update_freq", "--batch.accumulation"),
    renamed("--lr", "--optim.learning-rate"),
    instead("--train_with_epoch_remainder_batch", kCut),
    // CheckpointConfig
    renamed("--save_dir", "--run.dir"),
    instead("--restore_file", kResume),
    instead("--finetune_from_model", kWeightsAlone),
    instead("--reset_dataloader", "--model.init PATH: its weights, and the samples from the first"),
    instead("--reset_lr_scheduler", kWeightsAlone),
    instead("--reset_meters", kWeightsAlone),
    instead("--reset_optimizer", kWeightsAlone),
    instead("--optimizer_overrides",
            "the options of group optim on the command line, which also apply when a run is resumed"),
    instead("--save_interval_epochs", kEpochs),
    instead("--save_interval", kEpochs),
    renamed("--save_interval_updates", "--checkpoint.every"),
    instead("--local_save_interval_updates", "--checkpoint.every N with --checkpoint.local DIR"),
    instead("--save_last_checkpoint", kFinalSave),
    instead("--keep_last_epochs", "--checkpoint.keep N"),
    instead("--keep_last_updates", "--checkpoint.keep N (0: all)"),
    instead("--keep_interval_updates", "--checkpoint.keep N (0: all)"),
    instead("--keep_best_checkpoints", kBest),
    instead("--best_checkpoint_metric", kBest),
    instead("--maximize_best_checkpoint_metric", kBest),
    instead("--no_best_checkpoints", "--checkpoint.best false"),
    instead("--no_save", "--checkpoint.every 0: only at the end"),
    instead("--no_epoch_checkpoints", kEpochs),
    instead("--no_last_checkpoints", kFinalSave),
    instead("--no_save_optimizer_state", kComplete),
    instead("--no_save_optimizer_state_on_training_finished", kComplete),
    instead("--patience", "--run.steps N: training ends after them"),
    instead("--checkpoint_suffix", kDir),
    idle("--checkpoint_shard_count", "snapshots are read by any number of ranks"),
    idle_switch("--load_checkpoint_on_all_dp_ranks", "snapshots are read by any number of ranks"),
    idle_switch("--write_checkpoints_asynchronously", "snapshots are always written in the background"),
    idle_switch("--save_async", "snapshots are always written in the background"),
    instead("--cloud_upload_path", kUpload),
    instead("--cloud_dir", kUpload),
    instead("--nfs_eval_script_path", kEvalAfter),
    idle("--nfs_eval_num_attempts", "for nfs-eval-script-path, which is refused"),
    idle("--nfs_eval_attempt_wait_minutes", "for nfs-eval-script-path, which is refused"),
    idle("--nfs_eval_frequency", "for nfs-eval-script-path, which is refused"),
    instead("--eval_module", kEvalAfter),
    instead("--evaluate_interval_updates", kEvalAfter),
    instead("--evaluate_last_checkpoint", kEvalAfter),
    idle("--cluster_env", "training does not depend on the provider of the machines"),
    instead("--sequence_parallel", "--mesh.sequence true"),
    // EMAConfig
    instead("--store_ema", kEma),
    idle("--ema_decay", "for store-ema, which is refused"),
    idle("--ema_start_update", "for store-ema, which is refused"),
    instead("--ema_seed_model", kEma),
    idle("--ema_update_freq", "for store-ema, which is refused"),
    idle_switch("--ema_fp32", "for store-ema, which is refused"),
    // the model
    instead("--arch", kPreset),
    instead("-a", kPreset),
    {"train", "--activation_fn=relu", same, "--model.activation=relu"},
    {"train", "--activation_fn=gelu", same, "--model.activation=gelu-tanh"},
    instead("--activation_fn", "--model.activation relu, gelu-erf or gelu-tanh"),
    instead("--dropout",
            "--model.dropout P, with --model.embedding-dropout 0 for no-emb-dropout (nanoGPT's keys: "
            "--dialect nanogpt)"),
    renamed("--attention_dropout", "--model.attention-dropout"),
    renamed("--decoder_embed_dim", "--model.width"),
    renamed("--decoder_ffn_embed_dim", "--model.inner-width"),
    renamed("--decoder_layers", "--model.layers"),
    renamed("--decoder_attention_heads", "--model.heads"),
    instead("--share_decoder_input_output_embed", "--model.tied-head true, the default"),
    instead("--decoder_learned_pos", kPositions),
    instead("--decoder_learned_sinusoidal", kPositions),
    instead("--alibi", kPositions),
    idle_switch("--no_scale_embedding", "embeddings are never scaled"),
    instead("--checkpoint_activations", kRecompute),
    instead("--distribute_checkpointed_activations", kRecompute),
    instead("--offload_activations", kRecompute),
    instead("--recompute_fc1_num_layers", kRecompute),
    idle("--min_params_to_wrap", kFsdp),
    idle("--fsdp_checkpoint_wrap_layer_frequency", kFsdp),
    instead("--self_attn_doc_sep", "nothing, because attention crosses the ends of documents, as in OPT"),
    idle_switch("--tensor_parallel_init_model_on_gpu", kGpu),
    instead("--full_megatron_init", kInit),
    instead("--full_megatron_init_scalar", kInit),
    instead("--pos_init_scalar", kInit),
    instead("--truncate_init", kInit),
    instead("--megatron_init_sigma", kInit),
    instead("--no_emb_dropout", "--model.embedding-dropout 0"),
    instead("--disable_bias", "--model.bias false"),
    instead("--disable_affine_ln", kNoOther),
    instead("--decoder_normalize_before", "--model.norm-place pre"),
    instead("--decoder_input_dim", kNoOther),
    instead("--decoder_output_dim", kNoOther),
    instead("--use_stable_embedding", kNoOther),
    instead("--scale_fc", kNoOther),
    instead("--scale_attn", kNoOther),
    instead("--scale_heads", kNoOther),
    instead("--sync_ln_variance", kNoOther),
    instead("--attn_variant", kNoOther),
    idle("--xf_attn_op", kGpu),
    // the tasks streaming_language_modeling and dummy_lm
    instead("--task", "`trireme train`, or `trireme bench step --synthetic` for dummy_lm"),
    instead("--tokenizer", kTokenizer),
    instead("--bpe", kTokenizer),
    instead("--hf_tokenizer", kTokenizer),
    instead("--vocab_filename", kTokenizer),
    instead("--merges_filename", kTokenizer),
    instead("--end_of_document_symbol", kTokenizer),
    {"train", "--sample_break_mode=none", no_effect, "samples are always cut in this way"},
    instead("--sample_break_mode", kCut),
    renamed("--tokens_per_sample", "--batch.sequence"),
    instead("--max_source_positions", "--model.context N"),
    instead("--max_target_positions", "--model.context N"),
    renamed("--final_vocab_size", "--model.vocabulary"),
    instead("--dict_size", "--model.vocabulary N"),
    instead("--dataset_size", "`trireme bench step --synthetic`"),
    instead("--add_bos_token", kTokenizer),
    instead("--multicorpus_sampling_alpha", kCorpora),
    instead("--multicorpus_sampling_maximum", kCorpora),
    idle("--data_subshard_count", kLoader),
    instead("--language_modeling_type", kObjective),
    instead("--cm3_mode", kObjective),
    idle("--cm3_num_sentinel_tokens", "for an objective that is refused"),
    idle("--cm3_lambda_sentinel_tokens", "for an objective that is refused"),
    idle_switch("--cm3_allow_across_eod_boundaries", "for an objective that is refused"),
    // criterion, optimizer, schedule
    {"train", "--criterion=cross_entropy", no_effect, "the loss is always cross-entropy"},
    {"train", "--criterion=vocab_parallel_cross_entropy", no_effect,
     "the loss is always cross-entropy, with tensor ranks too"},
    instead("--criterion", "nothing, because cross-entropy is the only loss"),
    {"train", "--optimizer=adam", no_effect, "the optimizer is always AdamW, as metaseq's adam is"},
    instead("--optimizer", kAdam),
    instead("--adam_betas", "--optim.beta1 0.9 --optim.beta2 0.95"),
    renamed("--adam_eps", "--optim.epsilon"),
    instead("--weight_decay",
            "--optim.weight-decay W with --optim.decay-all, as metaseq decays every tensor (nanoGPT's "
            "keys: --dialect nanogpt)"),
    instead("--wd", "--optim.weight-decay W with --optim.decay-all, as metaseq decays every tensor"),
    instead("--use_old_adam", kAdam),
    instead("--fp16_adam_stats", "nothing, because moments are f32"),
    instead("--block_wise", kAdam),
    instead("--momentum", kAdam),
    {"train", "--lr_scheduler=polynomial_decay", same, "--optim.schedule=polynomial"},
    instead("--lr_scheduler", kSchedule),
    renamed("--warmup_updates", "--optim.warmup-steps"),
    renamed("--end_learning_rate", "--optim.min-learning-rate"),
    renamed("--power", "--optim.decay-power"),
    renamed("--total_num_update", "--optim.decay-steps"),
    instead("--force_anneal", "--optim.decay-steps N: counted in steps"),
    instead("--zero_lr_warmup_steps", kFromZero),
    instead("--warmup_init_lr", kFromZero),
    instead("--min_lr", "--optim.min-learning-rate R (nanoGPT's keys: --dialect nanogpt)"),
    instead("--t_mult", kPeriods),
    instead("--lr_period_updates", kPeriods),
    instead("--lr_shrink", kPeriods),
    // flags of the launcher, before `train`; there, -p, -t and -d are flags of sbatch
    {"slurm", "--num_nodes", same, "--nodes"},
    launcher("--num_gpus", "--ntasks-per-node G"),
    launcher("-g", "--ntasks-per-node G"),
    launcher("-n", "--nodes N with --ntasks-per-node G"),
    launcher("--ntasks", "--nodes N with --ntasks-per-node G"),
    launcher("--prefix", "`-- train ... --run.dir DIR`; --job-name for the job's name"),
    launcher("--model_size", "`-- train configs/opt-125m.yaml`"),
    launcher("--data", "`-- train ... --data.dir DIR`"),
    launcher("--dry_run", "no --submit: the script is printed"),
    launcher("--azure", "--partition P"),
    launcher("--aws", "--partition P"),
    launcher("--fair", "--partition P"),
    launcher("--rsc", "--partition P"),
    launcher("--circleci", "--partition P"),
    launcher("--grid", kNoSweeps),
    launcher("--num_trials", kNoSweeps),
    launcher("--seed", "`-- train ... --run.seed N`; the launcher's seed is for sweeps, which are not supported"),
    launcher("--update_freq", "`-- train ... --batch.accumulation N`"),
    launcher("--resume_failed", "the same command: it resumes the run from its last snapshot"),
    launcher("--local", "`trireme train ...` here, or `mpirun -n N trireme train ...`"),
    launcher("--salloc", "`srun trireme train ...` inside the allocation"),
    launcher("--debug", "`-- train ... --verbose`"),
    launcher("--script", "the command of trireme after `--`"),
    launcher("--python", "nothing, because trireme is one program without Python"),
    launcher("--comment", "--sbatch=--comment=TEXT"),
    {"slurm", "--snapshot_code", no_effect, "the program is one file", nullptr, true},
    {"slurm", "--snapshot_root", no_effect, "no code is copied"},
    {"slurm", "--snapshot_recurse_dirs_internal", no_effect, "no code is copied"},
    {"slurm", "--snapshot_recurse_dirs_oss", no_effect, "no code is copied"},
    launcher("--no_tensorboard", "`-- train ... --log.tensorboard false`"),
    {"slurm", "--no_wandb", no_effect, "nothing is sent to wandb", nullptr, true},
    launcher("--tensorboard_logdir", "nothing, because the files are in RUN/tensorboard"),
    launcher("--post_steps", "lines at the end of the script that --write FILE writes"),
    launcher("--full_azure_upload_path", "`-- train ... --checkpoint.local DIR`; nothing is uploaded"),
    launcher("--azure_folder_auto_name", "`-- train ... --run.dir DIR`"),
    launcher("--checkpoints_dir", "`-- train ... --run.dir DIR`"),
    launcher("--local_checkpoints_dir", "`-- train ... --checkpoint.local DIR`"),
    launcher("--tombstonable", "`trireme stop RUN`"),
    launcher("-ts", "`trireme stop RUN`"),
    launcher("--restore_file", "`-- train ... --checkpoint.resume PATH`, or --model.init PATH for the weights alone"),
    launcher("--reset_dataloader", "`-- train ... --model.init PATH`: its weights, and the samples from the first"),
    launcher("--no_save_dir", "`-- train ... --checkpoint.every 0`: only at the end"),
    launcher("--benchmark", "`-- bench step --preset opt-125m`"),
    launcher("--profile", "`-- train ... --log.profile 5`"),
    launcher("--max_update", "`-- train ... --run.steps N`"),
    launcher("--mu", "`-- train ... --run.steps N`"),
    launcher("--max_epoch", "`-- train ... --run.steps N`, counted in steps"),
    launcher("--me", "`-- train ... --run.steps N`, counted in steps"),
    launcher("--disable_validation", "`-- train ... --evaluation.every 0`: only at the end"),
};

}  // namespace

std::span<const ForeignOption> metaseq_options() { return kOptions; }

}  // namespace trireme
