// Dialect accelerate: the YAML that `accelerate config` writes, and `trireme config wizard`. It says how ranks are
// started, which `trireme launch --config-file` reads; for training it has only the precision.

#include <algorithm>

#include "config/dialect.h"
#include "tensor/dtype.h"

namespace trireme {
namespace {

using enum DialectRow::Kind;

constexpr const char* kLaunched = "used by `trireme launch --config-file`; training uses the ranks that were started";

constexpr DialectRow kRows[] = {
    {"compute_environment=LOCAL_MACHINE", only,
     "ranks start only on hosts that `trireme launch` reaches; set it to LOCAL_MACHINE",
     "LOCAL_MACHINE; AMAZON_SAGEMAKER is refused"},
    {"distributed_type=NO", only, "only NO (one process), MULTI_CPU and MULTI_GPU are supported",
     "MULTI_GPU: run.device cuda; NO and MULTI_CPU change nothing; others are refused", "NO|MULTI_CPU|MULTI_GPU"},
    {"mixed_precision=no", mapped,
     "precision.dtype: bf16, or f16 for fp16 without use_cpu; no changes nothing; fp8 is refused"},
    {"num_machines=1; num_processes=1", mapped, kLaunched},
    {"main_process_port=0; mpirun_config.mpirun_hostfile=", no_effect, kLaunched},
    {"mpirun_config.mpirun_ccl=; main_process_ip=; machine_rank=0; rdzv_backend=static", no_effect,
     "ranks and their connections come from MPI"},
    {"same_network=true", no_effect, "`trireme launch` selects a network that connects all hosts"},
    {"use_cpu=true", mapped, "run.device: true: cpu; false changes nothing"},
    {"ipex_config.ipex=false; ipex_config.use_xpu=false; dynamo_config.dynamo_backend=NO; dynamo_config.dynamo_mode=; "
     "dynamo_config.dynamo_use_dynamic=false; dynamo_config.dynamo_use_fullgraph=false; ipex_config.*=; "
     "dynamo_config.*=; dynamo_backend=NO",
     no_effect, "torch is not used"},
    {"fp8_config.*=", no_effect, "for mixed_precision fp8, which is refused"},
    {"main_training_function=main", no_effect, "the program is always trireme"},
    {"debug=false", no_effect, "operations between ranks are always checked"},
    {"enable_cpu_affinity=false", no_effect, "launch.bind: ranks bind themselves"},
    {"command_file=; commands=; downcast_bf16=no; gpu_ids=all; tpu_name=; tpu_zone=; tpu_vm=; tpu_env=; "
     "tpu_use_cluster=false; tpu_use_sudo=false",
     no_effect, "for GPUs and TPUs"},
    {"deepspeed_config.*=", refused,
     "DeepSpeed's engine is not supported; set batch.* and optim.* in a native file and remove this group"},
    {"fsdp_config.*=; parallelism_config.*=; megatron_lm_config.*=", refused,
     "native options describe the sharding; set optim.shard, mesh.tensor and mesh.pipeline and remove this group"},
};
const std::vector<DialectKey> kKeys = dialect_keys(kRows);

bool claims(const std::string&, const std::vector<Setting>& settings) {
  const auto has = [&](std::string_view key) {
    return std::ranges::find(settings, key, &Setting::key) != settings.end();
  };
  return has("distributed_type") && (has("compute_environment") || has("num_processes"));
}

void translate(const DialectView& view, Translation& out) {
  const std::string& type = view.text("distributed_type");
  const bool gpus = type == "MULTI_GPU", cpu = view.given("use_cpu") && view.flag("use_cpu");
  if (gpus && cpu) view.object("use_cpu", "distributed_type is MULTI_GPU; set use_cpu to false, or MULTI_CPU");
  if (gpus) out.set("run.device", DeviceChoice::cuda, view.origin("distributed_type"));
  for (const char* key : {"num_machines", "num_processes"}) view.within(key, 1);
  const std::string& precision = view.text("mixed_precision");
  if (precision == "bf16") {
    out.set("precision.dtype", DType::bf16, view.origin("mixed_precision"));
  } else if (precision == "fp16" && (gpus || (type == "NO" && !view.flag("use_cpu")))) {
    set_f16_of_torch(out, view.origin("mixed_precision"));
  } else if (precision != "no") {
    view.object("mixed_precision", "CPUs compute in bf16 or f32; set bf16 or no");
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
