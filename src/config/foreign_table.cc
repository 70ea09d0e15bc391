#include "config/foreign_options.h"

#include <algorithm>

namespace trireme {
namespace {

using enum ForeignOption::Kind;

constexpr const char* kCompiled = "kernels are compiled ahead of time";
constexpr const char* kByMpi = "ranks and their connections come from MPI";
constexpr const char* kEachVariable = "--env NAME=VALUE for each variable that the ranks need";
constexpr const char* kBind = "no flag, because each rank binds to its cores, or `-- train ... --launch.bind inherit`";
constexpr const char* kTagged = "every line begins with its host and rank";
constexpr const char* kFolder = "`cd FOLDER` before launch: ranks start in the folder in which launch is started";
constexpr const char* kSlots = "--ppn N, or the slots of the hostfile";
constexpr const char* kStarter = "--starter openmpi, hydra or srun";
constexpr const char* kShowsPlaces = "launch logs how many ranks each host gets";

constexpr ForeignOption kOptions[] = {
    // nanoGPT's sample.py, Intel's, NeoX's generate.py; cli/sample/words.cc gives the first two their programs'
    // defaults
    {"sample", "--out_dir --ckpt_path --checkpoint --model_name_or_path", same, "--model"},
    {"sample", "--maximum_tokens --max_tokens", same, "--max-new-tokens"},
    {"sample", "--num_return_sequences", same, "--num-samples"},
    {"sample", "--sample_input_file -i", same, "--prompt-file"},
    {"sample", "--sample_output_file -o", same, "--output"},
    {"sample", "--text_gen_type", elsewhere, "--prompt-file FILE, --interactive, or neither to begin a document"},
    // nanoGPT's bench.py, metaseq's --benchmark
    {"bench step", "--batch_size", same, "--batch"},
    {"bench step", "--block_size", same, "--seq"},
    {"bench step", "--real_data=false", no_effect, "without --data, tokens are random"},
    {"bench step", "--real_data", elsewhere, "--data FILE, a train.bin"},
    {"bench step", "--profile=false", no_effect, ""},
    {"bench step", "--profile", elsewhere, "`trireme train ... --log.profile 5`"},
    {"bench step", "--model_size", elsewhere, "--preset opt-125m, and so on"},
    {"bench step", "--model", same, "--preset"},
    {"bench step", "--seed", no_effect, "the speed does not depend on it"},
    // both of them
    {"sample", "--device=cuda:0", same, "--device=cuda"},
    {"bench step", "--device=cuda:0", same, "--device=cuda"},
    {"sample|bench step", "--compile", no_effect, kCompiled},
    {"sample|bench step|bench generate|export", "--dtype=float32", same, "--dtype=f32"},
    {"sample|bench step|bench generate|export", "--dtype=bfloat16", same, "--dtype=bf16"},
    {"sample|bench step|bench generate|export", "--dtype=float16", elsewhere,
     "--dtype f32 or --dtype bf16, which CPUs support"},
    // preprocess_data.py of NeoX and Megatron, nanoGPT's prepare.py
    {"prepare|tokenizer train", "--workers --num_workers --num_proc", same, "--threads"},
    {"prepare", "--jsonl_keys", same, "--json-keys"},
    {"prepare", "--output_prefix", elsewhere, "--format megatron --output PREFIX"},
    {"prepare", "--dataset_impl", elsewhere, "--format megatron, which writes mmap files; no other kind is supported"},
    {"prepare", "--tokenizer_type --vocab_file --merge_file", elsewhere,
     "--tokenizer FILE (for a vocabulary also --merges FILE), or a FOLDER with vocab.json and merges.txt; the type is "
     "recognised from the file"},
    {"prepare", "--log_interval", no_effect, "a line is printed every ten seconds"},
    {"prepare", "--ftfy", elsewhere, "text that was cleaned with ftfy before"},
    {"prepare", "--data_dir -d", elsewhere, "--output DIR"},
    // of other trainers, as typed after `train`
    {"train", "--seed", same, "--run.seed"},
    {"train", "-H --hostfile --deepspeed --deepspeed_config", elsewhere,
     "`mpirun -n N trireme train ...`, or `trireme launch -f HOSTFILE -- train ...`"},
    {"train", "--config -c", elsewhere, "the file's name alone: `trireme train CONFIG.yaml`"},
    // Hydra's, through which Intel's program is configured
    {"train", "--config_name -cn --config_path -cp --config_dir -cd", elsewhere,
     "the file's name alone: `trireme train CONFIG.yaml`"},
    {"train", "--multirun -m", elsewhere, "a separate run for each set of values: sweeps are not supported"},
    {"train", "--cfg --info -i", elsewhere, "`trireme config show CONFIG.yaml ...`"},
    {"train", "--experimental_rerun", elsewhere, "the same command: it resumes its run"},
    {"train", "--resume --resume_from_checkpoint", elsewhere, "--checkpoint.resume: auto (the default), none or PATH"},
    {"train", "--workers --num_workers", no_effect, "samples are read from mapped files"},
    {"train", "--epochs", elsewhere, "--run.steps N: an epoch is tokens / (batch.global x batch.sequence) steps"},
    {"train", "--output_dir", elsewhere, "--run.dir DIR; run_glue's arguments belong to `trireme glue`"},
    {"train",
     "--model_name_or_path --task_name --do_train --do_eval --do_predict --num_train_epochs --max_seq_length "
     "--per_device_train_batch_size --train_file",
     elsewhere, "`trireme glue`, which takes run_glue's arguments"},
    // DeepSpeed's and NeoX's launchers, accelerate, torchrun, mpirun, srun
    {"launch|hosts|health", "-H", elsewhere, "--hostfile FILE, or --hosts a,b:2 for the names themselves"},
    {"launch|hosts|health", "-i", same, "--include"},
    {"launch|hosts", "-e", same, "--exclude"},
    {"launch|hosts", "-host --host", same, "--hosts"},
    {"launch|hosts", "--nnodes --num_machines --nodes", same, "--num-nodes"},
    {"launch", "--num_processes --ntasks", same, "--np"},
    {"launch", "--nproc_per_node --num_gpus --ntasks_per_node", same, "--ppn"},
    {"launch", "-N", elsewhere, "--ppn N for ranks per host, --num-nodes N for hosts"},
    {"launch", "--main_process_port --master_port", same, "--port"},
    {"launch",
     "--main_process_ip --master_addr --machine_rank --node_rank --rdzv_backend --rdzv_conf --rdzv_endpoint --rdzv_id",
     no_effect, kByMpi},
    {"launch", "--force_multi", no_effect, ""},
    {"launch", "--same_network", no_effect, "a network that connects all hosts is selected"},
    {"launch", "--use_cpu", same, "--cpu", nullptr, true},
    {"launch", "--ipex", no_effect, "torch is not used"},
    {"launch", "--mixed_precision", elsewhere, "`-- train ... --precision.dtype bf16`", "no"},
    {"launch", "--num_cpu_threads_per_process --cpu_threads_per_process", same, "--threads"},
    {"launch", "--multi_cpu", no_effect, "ranks on several hosts or cores are the normal case", nullptr, true},
    {"launch", "--dynamo_backend --dynamo_mode", no_effect, kCompiled},
    {"launch", "--dynamo_use_fullgraph --dynamo_use_dynamic", no_effect, kCompiled, nullptr, true},
    {"launch", "--mpirun_hostfile", same, "--hostfile"},
    {"launch", "--mpirun_ccl", no_effect, kByMpi},
    {"launch", "--enable_cpu_affinity", no_effect, "each rank binds itself to its cores", nullptr, true},
    {"launch", "--gpu_ids", elsewhere, "--env CUDA_VISIBLE_DEVICES=0,1, or --include HOST:0,1", "all"},
    {"launch", "--quiet -q", no_effect, "the log shows what a failed rank said", nullptr, true},
    {"launch", "--debug", no_effect, "operations between ranks are always checked", nullptr, true},
    {"launch", "--tee", elsewhere, "--log-dir FOLDER, a file for each rank"},
    {"launch", "--role --monitor_interval", no_effect, kByMpi},
    {"launch", "--downcast_bf16", elsewhere, "`-- train ... --precision.dtype bf16`", "no"},
    {"launch", "--gradient_accumulation_steps", elsewhere, "`-- train ... --batch.accumulation N`"},
    {"launch", "--gradient_clipping", elsewhere, "`-- train ... --optim.clip X`"},
    {"launch", "--zero_stage", elsewhere, "`-- train ... --optim.shard optimizer` (1), gradients (2) or parameters (3)",
     "0"},
    {"launch", "--offload_optimizer_device", elsewhere, "`-- train ... --optim.shard optimizer`", "none"},
    {"launch", "--offload_param_device", elsewhere, "`-- train ... --optim.shard parameters`", "none"},
    {"launch", "--use_megatron_lm", elsewhere, "`-- train ... --mesh.tensor N --mesh.pipeline M`"},
    {"launch", "--standalone", no_effect, kByMpi, nullptr, true},
    {"launch", "--local_addr", elsewhere, "--interface NAME or NETWORK"},
    {"launch", "--multi_gpu", no_effect,
     "each rank takes a GPU if all hosts have them; --run.device cuda after the command requires them", nullptr, true},
    {"launch", "--tpu --use_xpu --use_deepspeed --use_fsdp", elsewhere,
     "--np N with --ppn N: ranks take a GPU each if all hosts have them"},
    {"launch", "--launcher", elsewhere, kStarter},
    {"launch", "--no_ssh_check", elsewhere, "--skip-preflight"},
    {"launch", "--no_ssh", elsewhere, "--agents, with `trireme agent` on every other host"},
    {"launch", "--module --no_python", elsewhere, "--program, for a command that does not belong to trireme"},
    {"launch", "-genvall -envall", elsewhere, kEachVariable, nullptr, true},
    {"launch", "-genvlist -envlist", elsewhere, kEachVariable},
    {"launch", "-genvnone -envnone", no_effect, "only --env and Trireme's own variables reach the ranks", nullptr,
     true},
    {"launch", "--bind-to -bind-to", elsewhere, kBind, "core|none"},
    {"launch", "-binding --cpu-bind", elsewhere, kBind},
    {"launch", "--cpus-per-proc --cpus-per-task", elsewhere, "--threads N"},
    {"launch", "--report-bindings -report-bindings", no_effect, "each run logs its cores", nullptr, true},
    {"launch", "--map-by -map-by", elsewhere, "--ppn N: ranks per host"},
    {"launch", "--rank-by -rank-by -order-nodes", no_effect, "ranks are numbered host by host"},
    {"launch", "-rr", elsewhere, "--ppn 1"},
    {"launch", "-npernode --npernode", same, "--ppn"},
    {"launch", "--npersocket -npersocket", elsewhere, "--ppn N: ranks per host; without it there is one per socket"},
    {"launch", "-grr", same, "--ppn"},
    {"launch", "-c --n", same, "--np"},
    {"launch", "-l -prepend-rank", no_effect, kTagged, nullptr, true},
    {"launch", "-prepend-pattern", no_effect, kTagged},
    {"launch", "--tag-output -tag-output", no_effect, kTagged, nullptr, true},
    {"launch", "--timestamp-output -timestamp-output", same, "--timestamps", nullptr, true},
    {"launch", "--output-filename -output-filename", same, "--log-dir"},
    {"launch", "-outfile-pattern -errfile-pattern", elsewhere, "--log-dir FOLDER, a file for each rank"},
    {"launch", "--merge-stderr-to-stdout", no_effect, "the log is on standard error", nullptr, true},
    {"launch", "-wdir --wdir -wd --wd", elsewhere, kFolder},
    {"launch", "-path", elsewhere, "--program PATH/COMMAND"},
    {"launch", "--chdir -D", elsewhere, kFolder},
    {"launch", "--oversubscribe -oversubscribe", elsewhere, kSlots, nullptr, true},
    {"launch", "--nooversubscribe", no_effect, "preflight refuses more ranks than cores", nullptr, true},
    {"launch", "--use-hwthread-cpus", elsewhere, kSlots, nullptr, true},
    {"launch", "--allow-run-as-root", no_effect, "ranks are started as root if launch is", nullptr, true},
    {"launch", "--prefix", elsewhere, "--mpirun PATH of the mpirun to use"},
    {"launch", "-bootstrap -launcher -rmk --mpi", elsewhere, kStarter},
    {"launch", "-bootstrap-exec -launcher-exec", elsewhere, "the settings of ~/.ssh/config, which launch reads"},
    {"launch", "-nolocal --nolocal", elsewhere, "--exclude HOST", nullptr, true},
    {"launch", "-verbose --verbose -v", no_effect, "launch logs each decision", nullptr, true},
    {"launch", "-print-rank-map --display-map --display-allocation", no_effect, kShowsPlaces, nullptr, true},
    {"launch", "--display", no_effect, kShowsPlaces},
    {"launch", "-configfile", elsewhere, "the flags themselves; --config-file reads accelerate's file"},
    {"launch", "--app", elsewhere, "the flags themselves: one command for all ranks"},
    {"launch", "-s --stdin", no_effect, "ranks do not read standard input"},
    {"config wizard", "--config_file", same, "--output"},
    {"cluster create", "--dry_run", elsewhere, "`trireme cluster plan FILE --output DIR`, which only writes the plan"},
    // adapters; config/trl.cc has TRL's arguments of sft and dpo
    {"train", "--lora_r --lora_rank", same, "--lora.rank"},
    {"train", "--lora_alpha", same, "--lora.alpha"},
    {"train", "--lora_dropout", same, "--lora.dropout"},
    {"train", "--lora_target_modules --lora_target", same, "--lora.targets"},
    {"train", "--lora_modules_to_save", same, "--lora.modules-to-save"},
    {"train", "--use_rslora", elsewhere, "--lora.rslora true"},
    {"train", "--use_dora", elsewhere, "--lora.dora true"},
    {"train", "--use_peft", elsewhere, "--lora.rank 16"},
    {"train", "--load_in_4bit", elsewhere, "--precision.dtype bf16: bases of 4 bits are not supported"},
    {"train", "--load_in_8bit", elsewhere, "--precision.dtype bf16: bases of 8 bits are not supported"},
    // run_glue and transformers' TrainingArguments
    {"glue", "--output", same, "--output-dir"},
    {"glue", "--epochs", same, "--num-train-epochs"},
    {"glue", "--lr", same, "--learning-rate"},
    {"glue", "--batch_size", same, "--per-device-train-batch-size"},
    {"glue", "--label_smoothing", same, "--label-smoothing-factor"},
    // sources and destinations
    {"glue",
     "--cache-dir --use-fast-tokenizer --use-auth-token --token --overwrite-cache --trust-remote-code --hub-model-id "
     "--hub-strategy --hub-token --hub-private-repo --hub-always-push --hub-revision --push-to-hub-model-id "
     "--push-to-hub-organization --push-to-hub-token",
     no_effect, ""},
    {"glue", "--report-to=mlflow", elsewhere, "--log.mlflow http://SERVER:5000, which sends the metrics there"},
    {"glue", "--report-to", no_effect,
     "nothing is sent to wandb; metrics are in OUTPUT_DIR/metrics.jsonl and OUTPUT_DIR/tensorboard"},
    {"glue",
     "--run-name --project --trackio-space-id --trackio-bucket-id --trackio-static-space-id --logging-dir --log-level "
     "--log-level-replica --log-on-each-node --logging-nan-inf-filter --disable-tqdm --no-deprecation-warning "
     "--skip-memory-metrics --save-on-each-node --include-num-input-tokens-seen --include-tokens-per-second",
     no_effect, ""},
    // devices and processes
    {"glue", "--xpu-backend", no_effect, ""},
    {"glue", "--no-cuda", same, "--use-cpu"},
    {"glue",
     "--use-ipex --use-mps-device --local-rank --tpu-num-cores --tpu-metrics-debug --tf32 --half-precision-backend "
     "--fp16-backend --fp16-opt-level --jit-mode-eval --torch-compile --torch-compile-backend --torch-compile-mode "
     "--torchdynamo --torch-empty-cache-steps --ddp-backend --ddp-bucket-cap-mb --ddp-find-unused-parameters "
     "--ddp-broadcast-buffers --ddp-static-graph --ddp-timeout --accelerator-config --mp-parameters --ray-scope "
     "--use-liger-kernel --liger-kernel-config --low-cpu-mem-usage --use-legacy-prediction-loop",
     no_effect, ""},
    {"glue", "--enable-jit-checkpoint", no_effect, "a stop signal always saves a snapshot"},
    // how rows are loaded; here they are in memory, in an order that follows from the seed
    {"glue",
     "--dataloader-num-workers --dataloader-pin-memory --dataloader-persistent-workers --dataloader-prefetch-factor "
     "--dataloader-in-order --dispatch-batches --split-batches --length-column-name --remove-unused-columns "
     "--full-determinism --eval-accumulation-steps --eval-do-concat-batches --eval-use-gather-object "
     "--batch-eval-metrics --include-inputs-for-metrics --include-for-metrics --average-tokens-across-devices "
     "--use-cache",
     no_effect, ""},
    // belongs to flags that are refused below
    {"glue",
     "--past-index --gradient-checkpointing-kwargs --fsdp-config --fsdp-min-num-params "
     "--fsdp-transformer-layer-cls-to-wrap --restore-callback-states-from-checkpoint",
     no_effect, ""},
    // flags that would change numbers or outputs, and the values that would not
    {"glue", "--fp16-full-eval", elsewhere, "--fp16, which also evaluates in f16", "false"},
    {"glue", "--bf16-full-eval", elsewhere, "--bf16, which also evaluates in bf16", "false"},
    {"glue", "--neftune-noise-alpha", elsewhere, "no noise", "|none"},
    {"glue", "--adafactor", elsewhere, "AdamW", "false"},
    {"glue", "--optim", elsewhere, "AdamW", "adamw_hf|adamw_torch|adamw_torch_fused"},
    {"glue", "--optim-args", elsewhere, "--adam-beta1, --adam-beta2, --adam-epsilon", "|none"},
    {"glue", "--optim-target-modules", elsewhere, "AdamW on all parameters", "|none"},
    {"glue", "--data-seed", elsewhere, "--seed, which also gives the order of the rows", "|none"},
    {"glue", "--dataloader-drop-last", elsewhere, "every row of every epoch is used", "false"},
    {"glue", "--group-by-length", elsewhere, "rows are packed without padding, in shuffled order", "false"},
    {"glue", "--train-sampling-strategy", elsewhere, "rows are packed without padding, in shuffled order", "random"},
    {"glue", "--auto-find-batch-size", elsewhere, "--per-device-train-batch-size with --gradient-accumulation-steps",
     "false"},
    {"glue", "--save-only-model", elsewhere, "--save-strategy no: the model is written at the end", "false"},
    {"glue", "--save-safetensors", elsewhere, "model.safetensors", "true"},
    {"glue", "--eval-delay", elsewhere, "--eval-strategy steps with --eval-steps", "0|0.0"},
    {"glue", "--eval-on-start", elsewhere, "--do-eval without --do-train", "false"},
    {"glue", "--prediction-loss-only", elsewhere, "the task's metrics", "false"},
    {"glue", "--label-names", elsewhere, "the task's labels, or the column \"label\"", "|none"},
    {"glue", "--deepspeed --sharded-ddp --fsdp", elsewhere, "mpirun -n N trireme glue", "|none"},
    {"glue", "--tp-size", elsewhere, "--mesh.tensor with mpirun -n N trireme glue", "0|none"},
    {"glue", "--parallelism-config", elsewhere, "mpirun -n N trireme glue", "|none"},
    {"glue", "--push-to-hub", elsewhere, "the output folder, without an upload", "false"},
    {"glue", "--gradient-checkpointing", elsewhere, "--model.recompute", "false"},
    {"glue", "--dataset-name", elsewhere, "--task-name with --data-dir, or --train-file", "|none|glue|nyu-mll/glue"},
    {"glue", "--dataset-config-name", elsewhere, "--task-name with --data-dir, or --train-file", "|none"},
    {"glue", "--config-name", elsewhere, "a model folder with the config.json", "|none"},
    {"glue", "--ignore-data-skip", elsewhere, "a resumed run continues with the rows that follow", "false"},
    {"glue", "--debug", elsewhere, "no debugging", "|none"},
};

}  // namespace

std::span<const ForeignOption> foreign_options() {
  static const std::vector<ForeignOption> all = [] {
    std::vector<ForeignOption> options;
    for (const std::span<const ForeignOption> table : {std::span<const ForeignOption>(kOptions), metaseq_table()}) {
      for (const ForeignOption& row : table) {
        for (std::string_view rest = row.name; !rest.empty();
             rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()))) {
          options.push_back(row);
          options.back().name = rest.substr(0, rest.find(' '));
          rest.remove_prefix(options.back().name.size());
        }
      }
    }
    return options;
  }();
  return all;
}

}  // namespace trireme
