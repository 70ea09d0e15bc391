// Dialect accelerate: the YAML that `accelerate config` writes, and `trireme config wizard`. It says how ranks are
// started, which `trireme launch --config-file` reads; for training it has only the precision.

#include <algorithm>

#include "config/dialect.h"
#include "tensor/dtype.h"

namespace trireme {
namespace {

using enum KeyRole;

constexpr const char* kLaunched = "used by `trireme launch --config-file`; training uses the ranks that were started";
constexpr const char* kByMpi = "ranks and their connections come from MPI";
constexpr const char* kNoTorch = "torch is not used";
constexpr const char* kNoAccelerator = "for GPUs and TPUs";
constexpr const char* kDeepspeed =
    "DeepSpeed's engine is not supported; set batch.* and optim.* in a native file and remove this group";
constexpr const char* kSharding =
    "native options describe the sharding; set optim.shard, mesh.tensor and mesh.pipeline and remove this group";

const DialectKey kKeys[] = {
    {"compute_environment", "LOCAL_MACHINE", mapped, "", "LOCAL_MACHINE; AMAZON_SAGEMAKER is refused"},
    {"distributed_type", "NO", mapped, "",
     "MULTI_GPU: run.device cuda; NO and MULTI_CPU change nothing; others are refused"},
    {"mixed_precision", "no", mapped, "",
     "precision.dtype: bf16, or f16 for fp16 without use_cpu; no changes nothing; fp8 is refused"},
    {"num_machines", int64_t{1}, mapped, "", kLaunched},
    {"num_processes", int64_t{1}, mapped, "", kLaunched},
    {"main_process_port", int64_t{0}, no_effect, "", kLaunched},
    {"mpirun_config.mpirun_hostfile", "", no_effect, "", kLaunched},
    {"mpirun_config.mpirun_ccl", "", no_effect, "", kByMpi},
    {"main_process_ip", "", no_effect, "", kByMpi},
    {"machine_rank", int64_t{0}, no_effect, "", kByMpi},
    {"rdzv_backend", "static", no_effect, "", kByMpi},
    {"same_network", true, no_effect, "", "`trireme launch` selects a network that connects all hosts"},
    {"use_cpu", true, mapped, "", "run.device: true: cpu; false changes nothing"},
    {"ipex_config.ipex", false, no_effect, "", kNoTorch},
    {"ipex_config.use_xpu", false, no_effect, "", kNoTorch},
    {"dynamo_config.dynamo_backend", "NO", no_effect, "", kNoTorch},
    {"dynamo_config.dynamo_mode", "", no_effect, "", kNoTorch},
    {"dynamo_config.dynamo_use_dynamic", false, no_effect, "", kNoTorch},
    {"dynamo_config.dynamo_use_fullgraph", false, no_effect, "", kNoTorch},
    {"ipex_config.*", "", no_effect, "", kNoTorch},
    {"dynamo_config.*", "", no_effect, "", kNoTorch},
    {"dynamo_backend", "NO", no_effect, "", kNoTorch},
    {"fp8_config.*", "", no_effect, "", "for mixed_precision fp8, which is refused"},
    {"main_training_function", "main", no_effect, "", "the program is always trireme"},
    {"debug", false, no_effect, "", "operations between ranks are always checked"},
    {"enable_cpu_affinity", false, no_effect, "", "launch.bind: ranks bind themselves"},
    {"command_file", "", no_effect, "", kNoAccelerator},
    {"commands", "", no_effect, "", kNoAccelerator},
    {"downcast_bf16", "no", no_effect, "", kNoAccelerator},
    {"gpu_ids", "all", no_effect, "", kNoAccelerator},
    {"tpu_name", "", no_effect, "", kNoAccelerator},
    {"tpu_zone", "", no_effect, "", kNoAccelerator},
    {"tpu_vm", "", no_effect, "", kNoAccelerator},
    {"tpu_env", "", no_effect, "", kNoAccelerator},
    {"tpu_use_cluster", false, no_effect, "", kNoAccelerator},
    {"tpu_use_sudo", false, no_effect, "", kNoAccelerator},
    {"deepspeed_config.zero_stage", int64_t{0}, refused, "", kDeepspeed},
    {"deepspeed_config.gradient_accumulation_steps", int64_t{1}, refused, "", kDeepspeed},
    {"deepspeed_config.gradient_clipping", 1.0, refused, "", kDeepspeed},
    {"deepspeed_config.offload_optimizer_device", "none", refused, "", kDeepspeed},
    {"deepspeed_config.offload_param_device", "none", refused, "", kDeepspeed},
    {"deepspeed_config.zero3_init_flag", false, refused, "", kDeepspeed},
    {"deepspeed_config.deepspeed_config_file", "", refused, "", kDeepspeed},
    {"deepspeed_config.deepspeed_hostfile", "", refused, "", kDeepspeed},
    {"deepspeed_config.deepspeed_multinode_launcher", "", refused, "", kDeepspeed},
    {"deepspeed_config.*", "", refused, "", kDeepspeed},
    {"fsdp_config.fsdp_sharding_strategy", "", refused, "", kSharding},
    {"fsdp_config.fsdp_offload_params", false, refused, "", kSharding},
    {"fsdp_config.*", "", refused, "", kSharding},
    {"parallelism_config.*", "", refused, "", kSharding},
    {"megatron_lm_config.megatron_lm_tp_degree", int64_t{1}, refused, "", kSharding},
    {"megatron_lm_config.megatron_lm_pp_degree", int64_t{1}, refused, "", kSharding},
    {"megatron_lm_config.*", "", refused, "", kSharding},
};

bool claims(const std::string&, const std::vector<Setting>& settings) {
  const auto has = [&](std::string_view key) {
    return std::ranges::find(settings, key, &Setting::key) != settings.end();
  };
  return has("distributed_type") && (has("compute_environment") || has("num_processes"));
}

void translate(const DialectView& view, Translation& out) {
  if (view.text("compute_environment") != "LOCAL_MACHINE") {
    view.refuse("compute_environment",
                "ranks start only on hosts that `trireme launch` reaches; set it to LOCAL_MACHINE");
  }
  const std::string& type = view.text("distributed_type");
  if (type != "NO" && type != "MULTI_CPU" && type != "MULTI_GPU") {
    view.refuse("distributed_type", "only NO (one process), MULTI_CPU and MULTI_GPU are supported");
  }
  const bool gpus = type == "MULTI_GPU", cpu = view.given("use_cpu") && view.flag("use_cpu");
  if (gpus && cpu) view.refuse("use_cpu", "distributed_type is MULTI_GPU; set use_cpu to false, or MULTI_CPU");
  if (gpus) out.set("run.device", DeviceChoice::cuda, view.origin("distributed_type"));
  for (const char* key : {"num_machines", "num_processes"}) view.at_least(key, 1);
  const std::string& precision = view.text("mixed_precision");
  if (precision == "bf16") {
    out.set("precision.dtype", DType::bf16, view.origin("mixed_precision"));
  } else if (precision == "fp16" && (gpus || (type == "NO" && !view.flag("use_cpu")))) {
    set_f16_of_torch(out, view.origin("mixed_precision"));
  } else if (precision != "no") {
    view.refuse("mixed_precision", "CPUs compute in bf16 or f32; set bf16 or no");
  }
  if (cpu) out.set("run.device", DeviceChoice::cpu, view.origin("use_cpu"));
  if (view.given("num_processes")) {
    out.notes.push_back(view.origin("num_processes").text() + ": num_processes is " + kLaunched);
  }
}

}  // namespace

const Dialect kAccelerate = {
    .name = "accelerate",
    .help = "YAML of `accelerate config` and `trireme config wizard`; recognised by the key distributed_type",
    .keys = kKeys,
    .bare_overrides = false,
    .claims = claims,
    .translate = translate,
};

}  // namespace trireme
